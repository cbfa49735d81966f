// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/host_collectives.hpp"

#include "executor/cpu/rank_order_sum.hpp"
#include "sim/base/errors.hpp"

#include <cstring>
#include <string>

namespace athanor {

void HostCollectives::all_gather(void* buffer, Bytes part_bytes) {
  guarded([&] {
    meet();
    move_all_gather(buffer, part_bytes);
  });
}

void HostCollectives::reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) {
  if (elements % world_size() != 0) {
    throw Error("reduce_scatter: " + std::to_string(elements) + " elements do not divide by " +
                std::to_string(world_size()) + " ranks");
  }
  guarded([&] {
    meet();
    sum_own_part(buffer, elements / world_size(), dtype);
  });
}

void HostCollectives::all_reduce(void* buffer, std::int64_t elements, DataType dtype) {
  guarded([&] {
    meet();
    const std::int64_t part = elements / world_size();
    if (part > 0) {
      sum_own_part(buffer, part, dtype);
      move_all_gather(buffer, part * size_of(dtype));
    }
    const std::int64_t whole = part * world_size();
    sum_everywhere(static_cast<std::byte*>(buffer) + whole * size_of(dtype), elements - whole,
                   dtype);
  });
}

void HostCollectives::all_to_all(const void* from, void* to, Bytes part_bytes) {
  guarded([&] {
    meet();
    move_all_to_all(from, to, part_bytes);
  });
}

void HostCollectives::barrier() {
  guarded([&] { synchronize(); });
}

void HostCollectives::shift(int to, int from, std::span<const Shifted> parts) {
  guarded([&] {
    meet();
    for (const Shifted& part : parts) {
      if (part.bytes > 0 && (to >= 0 || from >= 0)) move_shift(to, from, part);
    }
  });
}

void HostCollectives::guarded(const std::function<void()>& collective) {
  if (failed_) {
    throw Error("a collective failed before; the job cannot go on");
  }
  failed_ = true;
  collective();
  failed_ = false;
}

/// Replaces part rank() of `buffer` by the sum over ranks. The other parts stay as they are.
void HostCollectives::sum_own_part(void* buffer, std::int64_t part_elements, DataType dtype) {
  const Bytes part_bytes = part_elements * size_of(dtype);
  move_all_to_all(buffer, work(part_bytes), part_bytes);
  sum_work(static_cast<std::byte*>(buffer) + rank() * part_bytes, part_elements, dtype);
}

/// Sums the rest that does not divide by the number of ranks: fewer than world_size elements.
void HostCollectives::sum_everywhere(void* buffer, std::int64_t elements, DataType dtype) {
  if (elements == 0) return;
  const Bytes part_bytes = elements * size_of(dtype);
  std::byte* const gathered = work(part_bytes);
  std::memcpy(gathered + rank() * part_bytes, buffer, static_cast<std::size_t>(part_bytes));
  move_all_gather(gathered, part_bytes);
  sum_work(buffer, elements, dtype);
}

/// Returns room for one part from every rank, kept between calls.
std::byte* HostCollectives::work(Bytes part_bytes) {
  const auto needed = static_cast<std::size_t>(part_bytes * world_size());
  if (work_.size() < needed) work_.resize(needed);
  return work_.data();
}

void HostCollectives::sum_work(void* to, std::int64_t elements, DataType dtype) {
  std::vector<const void*> parts;
  for (int rank = 0; rank < world_size(); ++rank) {
    parts.push_back(work_.data() + rank * elements * size_of(dtype));
  }
  rank_order_sum(to, parts, elements, dtype);
}

}  // namespace athanor
