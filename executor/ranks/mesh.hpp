// SPDX-License-Identifier: Apache-2.0
// A TCP connection between every two ranks, for launchers that bring no MPI (torchrun).
#pragma once

#include "executor/rendezvous/local_socket.hpp"

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

namespace athanor {

class Mesh {
 public:
  /// `links`: connections to all ranks, [rank]; this rank's own is not open.
  Mesh(int rank, std::vector<Descriptor> links);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world_size() const noexcept { return static_cast<int>(links_.size()); }

  /// Bytes for a peer, and room for what comes from it at the same time. Both know how many.
  struct Transfer {
    int peer = 0;
    std::span<const std::byte> out;
    std::span<std::byte> in;
  };
  /// Makes all transfers at once. Waits without using the processor. Throws Error, with the rank,
  /// where a peer's connection has ended, and Error("cancelled") soon after `*cancelled` is true.
  void exchange(std::vector<Transfer> transfers, const std::atomic<bool>* cancelled) const;

 private:
  void send_some(Transfer& transfer) const;
  void receive_some(Transfer& transfer) const;

  int rank_;
  std::vector<Descriptor> links_;
};

}  // namespace athanor
