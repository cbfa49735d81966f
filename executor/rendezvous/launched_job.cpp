// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/launched_job.hpp"

#include "executor/rendezvous/interrupts.hpp"
#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

namespace athanor {
namespace {

/// Time in which all have to end once all ranks have said goodbye.
constexpr Seconds kFarewell = 15;
/// Time in which mpirun has to end after the last rank.
constexpr Seconds kAfterRanks = 1;

int exit_code_of(int status) {
  constexpr int kSignalExitCode = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalExitCode + WTERMSIG(status);
}

void say(const std::string& text) { fmt::print(stderr, "athanor-train: {}\n", text); }

}  // namespace

void LaunchedJob::start(const std::string& name, const std::function<void()>& become) {
  const pid_t launcher = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) throw Error(fmt::format("cannot start {}: {}", name, std::strerror(errno)));
  if (process > 0) {
    children_.push_back({process, name, clock_.now()});
    return;
  }
  // Out of the terminal's group: this process decides what an interrupt means to the job.
  ::setpgid(0, 0);
  // There, reading from the terminal would stop it.
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  // Without its launcher a rank must not go on writing where a resumed run may already write.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == launcher) become();
  ::_exit(kExitFailed);
}

void LaunchedJob::reap() {
  std::erase_if(children_, [this](const Child& child) {
    int status = 0;
    if (::waitpid(child.process, &status, WNOHANG) <= 0) return false;
    name_killed(child, status);
    const int code = exit_code_of(status);
    if (failure_ == kExitDone && !feed_.all_have_left()) failure_ = code;
    return true;
  });
}

/// Names a rank that was killed. Of several, another one does.
void LaunchedJob::name_killed(const Child& child, int status) const {
  if (!has_one_rank_ || !WIFSIGNALED(status) || killed_ || told_) return;
  const int signal = WTERMSIG(status);
  say(fmt::format("error: {} (process {}) was killed by {}", child.name, child.process,
                  signal == SIGKILL ? "SIGKILL, as the system does when memory runs out"
                                    : signal_name(signal)));
}

void LaunchedJob::pass_on_interrupt() {
  if (told_) return;
  int signal = noted_interrupt();
  for (const Child& child : children_) {
    if (signal == 0) signal = pending_interrupt(child.process);
  }
  if (signal == 0) return;
  told_ = true;
  say(fmt::format("{}: finishing the step to save it; another one ends at once",
                  signal_name(signal)));
  feed_.stop(signal);
}

std::optional<std::string> LaunchedJob::find_stopped() {
  for (Child& child : children_) {
    if (!is_stopped(child.process)) child.running_at = now_;
    if (now_ - child.running_at < kSilence) continue;
    return fmt::format("{} (process {}) has been stopped for {} s", child.name, child.process,
                       kSilence);
  }
  return std::nullopt;
}

void LaunchedJob::kill_all() const {
  for (const Child& child : children_) ::kill(child.process, SIGKILL);
  feed_.kill_ranks();
}

void LaunchedJob::end_if_late() {
  const auto end_within = [this](Seconds seconds) {
    end_at_ = std::min(end_at_.value_or(now_ + seconds), now_ + seconds);
  };
  if (feed_.all_have_left()) end_within(kFarewell);
  if (feed_.has_failure() || failure_ != kExitDone) end_within(grace_);
  if (feed_.all_have_ended()) end_within(kAfterRanks);
  if (end_at_ && now_ >= *end_at_) kill_all();
}

/// Whoever is interrupted is not lost, and neither is whom this process kills afterwards.
void LaunchedJob::note_loss() {
  constexpr int kSignalExitCode = 128;
  if (lost_at_ || told_) return;
  if (killed_ || feed_.has_lost_rank() || failure_ > kSignalExitCode) lost_at_ = now_;
}

JobEnd LaunchedJob::wait() {
  note_interrupts(-1);
  while (!children_.empty()) {
    now_ = clock_.now();
    pass_on_interrupt();
    std::optional<std::string> problem = feed_.look();
    if (!problem) problem = find_stopped();
    if (problem && !killed_) {
      say("error: " + *problem);
      killed_ = true;
      if (failure_ == kExitDone) failure_ = kExitFailed;
      kill_all();
    }
    note_loss();
    end_if_late();
    reap();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  static_cast<void>(feed_.look());  // the last words
  note_loss();
  feed_.kill_ranks();
  return {.exit_code = feed_.exit_code() != kExitDone ? feed_.exit_code() : failure_,
          .lost_process = lost_at_.has_value(),
          .ending = lost_at_ ? clock_.now() - *lost_at_ : 0};
}

}  // namespace athanor
