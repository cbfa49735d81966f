// SPDX-License-Identifier: Apache-2.0
#include "executor/watch/job_watch.hpp"

#include "executor/rendezvous/interrupts.hpp"
#include "executor/rendezvous/mpi_cleaner.hpp"
#include "executor/rendezvous/mpi_leftovers.hpp"
#include "executor/rendezvous/rank_feed.hpp"
#include "executor/rendezvous/sibling_ranks.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Time that the owner of the watch has to end the process in its own way after a failure.
constexpr Seconds kGrace = 3;
/// Time for the first rank's own message to appear before others say that it has failed.
constexpr std::chrono::milliseconds kOthersSpeakAfter{500};

std::string launcher_key() { return std::string(environment_variable(kLauncherKey)); }

/// Ties this process to the launcher that started it; returns its number, 0 where there is none.
pid_t tie_to_launcher(const RankInfo& rank) {
  if (rank.world_size == 1 && !rank.launched_by_mpi && launcher_key().empty()) return 0;
  // Without its launcher a rank must not go on writing where a resumed run may already write.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t parent = ::getppid();
  // The first process of a container may be an mpirun. Else it has taken over an orphan.
  const bool has_parent = parent > 1 || is_mpi_launcher(parent);
  // Athanor's own launcher removes what MPI leaves; under a foreign one, a rank of each node does.
  if (rank.launched_by_mpi && rank.local_rank == 0 && launcher_key().empty() && has_parent) {
    if (const auto leftovers = leftovers_from_environment()) start_cleaner(parent, *leftovers);
  }
  return has_parent ? parent : 0;
}

}  // namespace

JobWatch::JobWatch(const RankInfo& rank, std::string program)
    : rank_(rank),
      program_name_(std::move(program)),
      parent_(tie_to_launcher(rank)),
      links_(rank, key_of_local_job(rank)),
      watchdog_(rank.world_size),
      gone_(static_cast<std::size_t>(rank.world_size), false),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  note_interrupts(wake_.get());
  now_ = clock_.now();
  if (parent_ != 0 && !launcher_key().empty()) {
    Descriptor connection = connect_locally(launcher_socket(launcher_key()));
    if (!connection.is_open() || !take_outputs(connection)) ::_exit(kExitFailed);  // it is dead
    launcher_ = MessageLink(std::move(connection));
    has_launcher_ = true;
    launcher_.send(message_of(MessageKind::Hello, rank_.rank));
  }
  if (!key_of_local_job(rank).empty()) {
    if (rank_.rank != 0) watchdog_.expect(0, now_);
    for (int other = 1; rank_.rank == 0 && other < rank_.world_size; ++other) {
      watchdog_.expect(other, now_);
    }
  }
  thread_ = std::thread([this] { run(); });
}

JobWatch::~JobWatch() {
  if (exit_code_ < 0) leave(kExitFailed);
}

void JobWatch::set_activity(std::string activity) {
  const std::lock_guard lock(mutex_);
  activity_ = std::move(activity);
}

void JobWatch::watch_steps(const Program& program, Seconds deadline, OnFailure on_failure) {
  const std::lock_guard lock(mutex_);
  program_ = &program;
  on_failure_ = std::move(on_failure);
  watchdog_.set_deadline(deadline);
}

void JobWatch::forget_steps() {
  const std::lock_guard lock(mutex_);
  progress_.phase = RankPhase::BetweenSteps;
  program_ = nullptr;
  on_failure_ = nullptr;
  watchdog_.set_deadline(0);
}

int JobWatch::stop_signal() const noexcept {
  return noted_interrupt() != 0 ? noted_interrupt() : launchers_signal_.load();
}

bool JobWatch::is_linked() const {
  const std::lock_guard lock(mutex_);
  return links_.is_linked();
}

MeetingPlace JobWatch::open_meeting(std::span<const MachineAddresses> others) {
  const std::lock_guard lock(mutex_);
  return links_.open_meeting(others);
}

void JobWatch::go_to(const MeetingPlace& place) {
  constexpr int kTries = 50;
  {
    const std::lock_guard lock(mutex_);
    links_.go_to(place);
  }
  for (int i = 0; i < kTries && !is_linked(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void JobWatch::expect(int rank) {
  const std::lock_guard lock(mutex_);
  watchdog_.expect(rank, now_);
}

void JobWatch::leave(int exit_code) {
  exit_code_ = exit_code;
  if (thread_.joinable()) thread_.join();
  // Others see the end of the links when this process has really ended.
  static auto* const kept = new std::vector<std::pair<RankLinks, MessageLink>>();
  kept->emplace_back(std::move(links_), std::move(launcher_));
}

void JobWatch::run() {
  constexpr int kPeriodMs = 100;
  pollfd woken{.fd = wake_.get(), .events = POLLIN, .revents = 0};
  while (true) {
    if (::poll(&woken, 1, kPeriodMs) > 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto bytes = ::read(wake_.get(), &count, sizeof count);
    }
    const std::lock_guard lock(mutex_);
    now_ = clock_.now();
    look();
    // Once more, for ranks that this one has met only after its first goodbye.
    if (may_end()) return links_.send(goodbye());
  }
}

void JobWatch::look() {
  handle_interrupt();
  links_.connect(status(), now_);
  send_heartbeat();
  hear_ranks();
  hear_launcher();
  check_launcher();
  check_missing_ranks();
  check_links();
  if (const auto finding = watchdog_.look(now_)) {
    fail(finding->message, links_.process_of(finding->rank));
  }
  if (failed_at_ && now_ - *failed_at_ > kGrace) end_process(kExitFailed);
}

RankMessage JobWatch::status() const {
  RankMessage message = message_of(MessageKind::Status, rank_.rank, doing());
  message.phase = static_cast<std::int32_t>(progress_.phase.load());
  message.operations = progress_.operations;
  message.collectives = progress_.collectives;
  return message;
}

std::string JobWatch::doing() const {
  return program_ != nullptr && progress_.phase == RankPhase::Stepping ? running(*program_)
                                                                       : activity_;
}

/// Says what the rank runs. A collective is named only when the rank runs nothing else, because
/// other ranks wait in collectives too.
std::string JobWatch::running(const Program& program) const {
  std::vector<std::string> names;
  for (const Lane lane : {Lane::Compute, Lane::H2D, Lane::D2H, Lane::CpuAdam, Lane::NvmeRead,
                          Lane::NvmeWrite, Lane::Collective}) {
    const std::int64_t operation = progress_.running.at(static_cast<std::size_t>(lane));
    if (operation < 0 || (lane == Lane::Collective && !names.empty())) continue;
    names.push_back(fmt::format("'{}'", program.name(static_cast<std::int32_t>(operation))));
  }
  if (names.empty()) return "it is between operations";
  return fmt::format("it is in {} of step {}", fmt::join(names, ", "), progress_.step.load() + 1);
}

void JobWatch::send_heartbeat() {
  if (now_ - sent_at_ < kHeartbeat) return;
  sent_at_ = now_;
  const RankMessage message = status();
  watchdog_.hear(rank_.rank, message, now_);
  // Nothing else is expected after a goodbye. It is repeated for a rank that comes after it, which
  // would wait for it, and rank 0 for the end of that rank.
  if (left_at_) return links_.send(goodbye());
  links_.send(message);
  launcher_.send(message);
}

void JobWatch::hear_ranks() {
  for (const auto& [rank, message] : links_.receive()) hear(rank, message);
  for (const int rank : links_.take_broken()) {
    if (!gone_.at(static_cast<std::size_t>(rank))) watchdog_.lose(rank);
  }
}

void JobWatch::hear(int rank, const RankMessage& message) {
  switch (message.kind) {
    case MessageKind::Interrupted:
      links_.send(message);
      if (rank_.rank == 0 && message.exit_code != 0) say_interrupted(message.exit_code);
      return end_process(kExitInterrupted);
    case MessageKind::Failure:
      return fail(message.text_of(), 0);
    case MessageKind::Bye:
      gone_.at(static_cast<std::size_t>(rank)) = true;
      watchdog_.release(rank);
      if (message.exit_code == kExitDone || message.exit_code == kExitInterrupted) return;
      // It says why itself, and everybody ends as it does.
      std::this_thread::sleep_for(kOthersSpeakAfter);
      say(fmt::format("rank {} (process {} on {}) has failed", rank, message.process,
                      message.host_of()));
      return end_process(message.exit_code);
    default:
      watchdog_.hear(rank, message, now_);
  }
}

void JobWatch::hear_launcher() {
  if (!has_launcher_) return;
  while (const std::optional<RankMessage> message = launcher_.receive()) {
    launcher_heard_at_ = now_;
    if (message->kind == MessageKind::Stop) launchers_signal_ = message->exit_code;
  }
  if (!launcher_.is_open()) end_process(kExitFailed);  // it is dead, and nobody reads messages
}

void JobWatch::check_launcher() {
  if (parent_ == 0) return;
  if (!is_stopped(parent_)) parent_ran_at_ = now_;
  const bool parent_stopped = now_ - parent_ran_at_ > kSilence;
  const bool launcher_silent = has_launcher_ && now_ - launcher_heard_at_ > kSilence;
  if (!parent_stopped && !launcher_silent) return;
  const std::string message =
      fmt::format("{} has not run for {} s, so rank {} ends",
                  parent_stopped ? fmt::format("the launcher of this rank (process {})", parent_)
                                 : "the launcher of this job",
                  kSilence, rank_.rank);
  say("error: " + message);
  links_.send(message_of(MessageKind::Failure, rank_.rank, message));
  std::this_thread::sleep_for(kOthersSpeakAfter);
  if (parent_stopped) ::kill(parent_, SIGKILL);
  end_process(kExitFailed);
}

/// Finds ranks that were stopped before they could come. The launcher's processes show them, so
/// they need not be waited for as long as ranks that may only be slow.
void JobWatch::check_missing_ranks() {
  if (parent_ == 0 || !rank_.is_on_one_machine()) return;
  for (const int rank : watchdog_.missing()) {
    const std::optional<pid_t> process = stopped_rank(parent_, rank);
    if (!process) {
      stopped_since_.erase(rank);
    } else if (now_ - stopped_since_.try_emplace(rank, now_).first->second > kSilence) {
      fail(fmt::format("rank {} (process {}) has been stopped for {} s; it has not started yet",
                       rank, *process, kSilence),
           *process);
    }
  }
}

/// Says which link to another machine is slow. Rank 0 sees them all, and nobody ends for it.
void JobWatch::check_links() {
  for (int other = 1; rank_.rank == 0 && other < rank_.world_size; ++other) {
    const std::optional<Seconds> round_trip = links_.round_trip(other);
    if (!round_trip) continue;
    const std::string host = watchdog_.host_of(other);
    if (host.empty()) continue;  // not heard yet
    if (const auto remark = link_watch_.look(host, *round_trip, now_)) say(*remark);
  }
}

void JobWatch::handle_interrupt() {
  if (!is_stop_wanted() || caller_stops_ || exit_code_ >= 0) return;
  // One rank is enough where the launcher has told them all. An mpirun kills it a moment after
  // another has ended, so it speaks first.
  const bool speaks = noted_interrupt() != 0 || rank_.rank == 0;
  RankMessage message = message_of(MessageKind::Interrupted, rank_.rank);
  // Rank 0 may read this before its launcher's word, and would end without one.
  if (!speaks) message.exit_code = stop_signal();
  links_.send(message);
  if (speaks) {
    say_interrupted(stop_signal());
  } else {
    std::this_thread::sleep_for(kOthersSpeakAfter);
  }
  end_process(kExitInterrupted);
}

void JobWatch::say_interrupted(int signal) {
  say(fmt::format("interrupted by {} before training; the same command starts it again",
                  signal_name(signal)));
}

void JobWatch::fail(const std::string& message, pid_t culprit) {
  if (failed_at_) return;
  failed_at_ = now_;
  links_.send(message_of(MessageKind::Failure, rank_.rank, message));
  // At once: an mpirun kills the other ranks a second after it has lost one.
  say(message);
  // A stopped process never ends by itself.
  if (culprit > 0) ::kill(culprit, SIGKILL);
  if (on_failure_) return on_failure_(message);
  end_process(kExitFailed);
}

RankMessage JobWatch::goodbye() const {
  RankMessage bye = message_of(MessageKind::Bye, rank_.rank);
  bye.exit_code = exit_code_;
  return bye;
}

void JobWatch::say_goodbye() {
  links_.send(goodbye());
  launcher_.send(goodbye());
}

bool JobWatch::may_end() {
  if (exit_code_ < 0) return false;
  if (!left_at_) {
    left_at_ = now_;
    say_goodbye();
  }
  if (exit_code_ == kExitFailed) return true;
  // Somebody must be left to name a rank 0 that stops before it is done, or before it has come. An
  // orphan does not wait for one that comes no more: its launcher has died.
  if (rank_.rank != 0) {
    const bool may_come = parent_ != 0 && watchdog_.is_missing(0);
    return gone_.at(0) || (!links_.is_linked() && !may_come);
  }
  const bool is_late = now_ - *left_at_ > kSilence;
  bool all_ended = true;
  for (int other = 1; other < rank_.world_size; ++other) {
    if (has_ended(other)) continue;
    all_ended = false;
    if (is_late) end_late_rank(other);
  }
  return all_ended || now_ - *left_at_ > kSilence + kHeartbeat;
}

/// Whether a rank has gone, as far as rank 0 can tell. One of this machine has yet to come if it
/// has not been heard from, and there is a launcher to start it.
bool JobWatch::has_ended(int rank) const {
  if (links_.is_linked(rank)) return false;
  return gone_.at(static_cast<std::size_t>(rank)) || exit_code_ != kExitDone ||
         !rank_.is_on_one_machine() || parent_ == 0;
}

void JobWatch::end_late_rank(int rank) const {
  if (!links_.is_linked(rank)) {
    say(fmt::format("rank {} has not come by the end of the job", rank));
    return;
  }
  const pid_t process = links_.process_of(rank);
  if (process == 0) return;
  say(fmt::format("rank {} (process {}) is done but does not end; it is killed", rank, process));
  ::kill(process, SIGKILL);
}

void JobWatch::end_process(int exit_code) {
  exit_code_ = exit_code;
  say_goodbye();
  std::fflush(stderr);
  ::_exit(exit_code);
}

void JobWatch::say(const std::string& text) const {
  fmt::print(stderr, "{}: {}\n", program_name_, text);
}

}  // namespace athanor
