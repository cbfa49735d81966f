// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/collectives_local.hpp"

#include <cstddef>
#include <cstring>

namespace athanor {
namespace {

class LocalCollectives final : public Collectives {
 public:
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int world_size() const noexcept override { return 1; }
  void all_gather(void* /*buffer*/, Bytes /*part_bytes*/) override {}
  void reduce_scatter(void* /*buffer*/, std::int64_t /*elements*/, DataType /*dtype*/) override {}
  void all_reduce(void* /*buffer*/, std::int64_t /*elements*/, DataType /*dtype*/) override {}
  void all_to_all(const void* from, void* to, Bytes part_bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(part_bytes));
  }
  void barrier() override {}
};

}  // namespace

std::unique_ptr<Collectives> make_local_collectives() {
  return std::make_unique<LocalCollectives>();
}

}  // namespace athanor
