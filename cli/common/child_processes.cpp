// SPDX-License-Identifier: Apache-2.0
#include "cli/common/child_processes.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <string_view>
#include <utility>

namespace athanor::cli {
namespace {

using Work = std::function<std::string(std::size_t)>;

[[noreturn]] void throw_errno(const char* what) {
  throw Error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody listens any more
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("reading from a child process");
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

/// Runs the child's part and ends the process. It never returns, because the parent's stack is not
/// the child's to clean up.
[[noreturn]] void run_child(int out, const Work& work, std::size_t index) {
  int code = kExitDone;
  std::string text;
  try {
    text = work(index);
  } catch (const std::exception& error) {
    text = error.what();
    code = kExitFailed;
  } catch (...) {
    text = "an unknown exception";
    code = kExitFailed;
  }
  write_all(out, text);
  _exit(code);
}

class Child {
 public:
  Child(const Work& work, std::size_t index) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw_errno("pipe");
    const pid_t parent = getpid();
    std::fflush(nullptr);  // buffered text would be printed twice
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(kExitFailed);
      run_child(ends[1], work, index);
    }
    close(ends[1]);
    in_ = ends[0];
    if (pid_ < 0) {
      close(in_);
      throw_errno("fork");
    }
  }

  ~Child() {
    close(in_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    wait_for();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] ChildResult finish() {
    std::string text = read_all(in_);
    const int status = wait_for();
    if (WIFSIGNALED(status)) {
      return {{},
              fmt::format("the process was ended by signal {} ({})", WTERMSIG(status),
                          strsignal(WTERMSIG(status)))};
    }
    if (WEXITSTATUS(status) == kExitDone) return {std::move(text), {}};
    if (text.empty()) text = fmt::format("the process ended with code {}", WEXITSTATUS(status));
    return {{}, std::move(text)};
  }

 private:
  int wait_for() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  pid_t pid_ = -1;
  int in_ = -1;
};

}  // namespace

std::vector<ChildResult> run_in_children(std::size_t count, std::size_t parallel, const Work& work,
                                         const std::function<void(std::size_t done)>& on_done) {
  std::vector<ChildResult> results;
  std::deque<Child> running;
  for (std::size_t started = 0; results.size() < count;) {
    while (started < count && running.size() < std::max<std::size_t>(1, parallel)) {
      running.emplace_back(work, started++);
    }
    results.push_back(running.front().finish());
    running.pop_front();
    if (on_done) on_done(results.size());
  }
  return results;
}

}  // namespace athanor::cli
