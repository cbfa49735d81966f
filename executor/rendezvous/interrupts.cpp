// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/interrupts.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace athanor {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT, SIGHUP};
constexpr std::int64_t kSameRequestMs = 1000;

// A handler can reach nothing but globals.
std::atomic<bool> notes{false};
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_ms{0};
std::atomic<int> wake{-1};

std::int64_t now_ms() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

sigset_t interrupt_set() noexcept {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : kSignals) ::sigaddset(&signals, signal);
  return signals;
}

void say(std::string_view text) noexcept {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

void end_again(int signal) noexcept {
  constexpr int kSignalExitCode = 128;
  if (now_ms() - first_ms.load() < kSameRequestMs) return;
  say("athanor-train: a second signal ends it at once\n");
  ::_exit(kSignalExitCode + signal);
}

void on_signal(int signal) noexcept {
  if (!notes.load()) {
    say("athanor-train: interrupted by a signal before training; the same command starts it "
        "again\n");
    ::_exit(kExitInterrupted);
  }
  const int errno_before = errno;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_ms = now_ms();
    constexpr std::uint64_t kOne = 1;
    if (wake >= 0) [[maybe_unused]]
      const auto n = ::write(wake, &kOne, sizeof kOne);
  } else {
    end_again(signal);
  }
  errno = errno_before;
}

}  // namespace

void block_interrupts() noexcept {
  const sigset_t signals = interrupt_set();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

HeldInterrupts::HeldInterrupts() noexcept {
  const sigset_t signals = interrupt_set();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

HeldInterrupts::~HeldInterrupts() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void catch_interrupts() noexcept {
  for (const int signal : kSignals) {
    struct sigaction before{};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
  const sigset_t signals = interrupt_set();
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

void note_interrupts(int wake_descriptor) noexcept {
  wake = wake_descriptor;
  notes = true;
}

int noted_interrupt() noexcept { return first_signal; }

std::string signal_name(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "signal " + std::to_string(signal);
  }
}

}  // namespace athanor
