// SPDX-License-Identifier: Apache-2.0
// Collectives between processes on host memory. What connects the processes moves data, and sums
// are done here: libraries choose an order of summation by algorithm and size.
#pragma once

#include "executor/backend/collectives.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace athanor {

/// Collectives that give the same bits whatever connects the processes.
class HostCollectives : public Collectives {
 public:
  void all_gather(void* buffer, Bytes part_bytes) final;
  void reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) final;
  void all_reduce(void* buffer, std::int64_t elements, DataType dtype) final;
  void all_to_all(const void* from, void* to, Bytes part_bytes) final;
  void barrier() final;

  /// Bytes that this rank sends to another, and room for as many from a third.
  struct Shifted {
    const void* out = nullptr;
    void* in = nullptr;
    Bytes bytes = 0;
  };
  /// Sends every part to rank `to`, and receives as many parts of these sizes from rank `from`; -1:
  /// none. All ranks call it. What one sends must be what the other expects.
  void shift(int to, int from, std::span<const Shifted> parts);

  /// Makes collectives between some of these ranks, who all call it with the same `members`, in
  /// ascending order. Those are then called rank 0, 1, .. in them.
  [[nodiscard]] virtual std::unique_ptr<HostCollectives> among(const std::vector<int>& members) = 0;

 protected:
  /// Waits until every rank has come to the same collective, where moving data is no cheap wait.
  virtual void meet() = 0;
  /// Waits until every rank has come.
  virtual void synchronize() = 0;
  /// Copies part `rank()` of `buffer` to every rank.
  virtual void move_all_gather(void* buffer, Bytes part_bytes) = 0;
  /// Sends part i of `from` to rank i, and writes what it sends into part i of `to`.
  virtual void move_all_to_all(const void* from, void* to, Bytes part_bytes) = 0;

  /// Sends `part` to `to` and receives one of the same size from `from`; -1: none.
  virtual void move_shift(int to, int from, const Shifted& part) = 0;

  /// Whether an exception has left a collective. Peers may be gone, or still send.
  [[nodiscard]] bool has_failed() const noexcept { return failed_; }

 private:
  void guarded(const std::function<void()>& collective);
  void sum_own_part(void* buffer, std::int64_t part_elements, DataType dtype);
  void sum_everywhere(void* buffer, std::int64_t elements, DataType dtype);
  [[nodiscard]] std::byte* work(Bytes part_bytes);
  void sum_work(void* to, std::int64_t elements, DataType dtype);

  bool failed_ = false;
  std::vector<std::byte> work_;
};

}  // namespace athanor
