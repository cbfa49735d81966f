// SPDX-License-Identifier: Apache-2.0
// SIGTERM, SIGINT and SIGHUP: the first is a request to end, a later one ends the process at once.
#pragma once

#include <csignal>
#include <string>

namespace athanor {

/// Exit code of athanor-train after a signal: what was trained is saved, and can be resumed.
inline constexpr int kExitInterrupted = 5;

/// Catches the three signals from now on, except those that are ignored (nohup). Until
/// note_interrupts(), the first ends the process with kExitInterrupted: nothing was done yet.
void catch_interrupts() noexcept;

/// Makes the three signals wait, also in the program that replaces this process. For an mpirun that
/// would kill its ranks: pending_interrupt() shows its launcher that they came.
void block_interrupts() noexcept;

/// Lets the three signals of this thread wait as long as it lives: for steps that must not be cut
/// in two, such as making a folder and starting the process that removes it.
class HeldInterrupts {
 public:
  HeldInterrupts() noexcept;
  ~HeldInterrupts();
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;

 private:
  sigset_t before_{};
};

/// Only notes the first signal from now on. Its handler writes to `wake_descriptor`, an eventfd,
/// unless that is -1. Another one a second later, or after that, ends the process with
/// 128 + signal. Launchers and terminals often send the same request twice within that second.
void note_interrupts(int wake_descriptor) noexcept;

/// Returns the signal that was noted first; 0: none.
[[nodiscard]] int noted_interrupt() noexcept;

/// Returns "SIGTERM", for example.
[[nodiscard]] std::string signal_name(int signal);

}  // namespace athanor
