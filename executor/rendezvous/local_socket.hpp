// SPDX-License-Identifier: Apache-2.0
// Stream sockets between processes of one user on one machine. Their names lie in no folder, so
// that nothing is left when a process is killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace athanor {

/// An open descriptor, closed on destruction. -1: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  void close() noexcept;

 private:
  int number_ = -1;
};

/// Listens under `name`. Not open where the name is taken.
[[nodiscard]] Descriptor listen_locally(const std::string& name);
/// Connects to `name`. Not open where nobody listens.
[[nodiscard]] Descriptor connect_locally(const std::string& name);
/// Accepts a waiting connection of this user, without blocking afterwards. Not open: there is none.
/// Connections of other users are closed.
[[nodiscard]] Descriptor accept_locally(const Descriptor& listening);
/// Returns the process at the other end by its number in this process's namespace; 0: unknown.
[[nodiscard]] pid_t peer_process(const Descriptor& connection) noexcept;

/// Hands this process's stdout and stderr to the other end. Nothing else may be sent before.
void send_outputs(const Descriptor& connection) noexcept;
/// Takes them as this process's own. Returns false where they do not come within some seconds.
[[nodiscard]] bool take_outputs(const Descriptor& connection) noexcept;

/// Returns 32 random hexadecimal digits.
[[nodiscard]] std::string random_key();

}  // namespace athanor
