// SPDX-License-Identifier: Apache-2.0
#include "executor/ranks/collectives_mesh.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace athanor {
namespace {

class MeshCollectives final : public HostCollectives {
 public:
  /// `members`: ranks of the mesh, in ascending order.
  MeshCollectives(std::shared_ptr<const Mesh> mesh, std::vector<int> members)
      : mesh_(std::move(mesh)),
        members_(std::move(members)),
        rank_(static_cast<int>(std::ranges::find(members_, mesh_->rank()) - members_.begin())) {}

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override {
    return static_cast<int>(members_.size());
  }

  [[nodiscard]] std::unique_ptr<HostCollectives> among(const std::vector<int>& members) override {
    std::vector<int> of_mesh;
    for (const int member : members) of_mesh.push_back(members_.at(member));
    return std::make_unique<MeshCollectives>(mesh_, std::move(of_mesh));
  }

 private:
  using Part = std::pair<std::span<const std::byte>, std::span<std::byte>>;

  /// Waiting for data costs nothing, so nobody has to meet before it moves.
  void meet() override {}

  void synchronize() override {
    const std::byte out{};
    std::vector<std::byte> in(members_.size());
    exchange([&](int other) { return Part{{&out, 1}, {&in[other], 1}}; });
  }

  void move_all_gather(void* buffer, Bytes part_bytes) override {
    const auto size = static_cast<std::size_t>(part_bytes);
    auto* const bytes = static_cast<std::byte*>(buffer);
    exchange([&](int other) {
      return Part{{bytes + rank_ * size, size}, {bytes + other * size, size}};
    });
  }

  void move_all_to_all(const void* from, void* to, Bytes part_bytes) override {
    const auto size = static_cast<std::size_t>(part_bytes);
    const auto* const sent = static_cast<const std::byte*>(from);
    auto* const received = static_cast<std::byte*>(to);
    std::memcpy(received + rank_ * size, sent + rank_ * size, size);
    exchange([&](int other) {
      return Part{{sent + other * size, size}, {received + other * size, size}};
    });
  }

  void move_shift(int to, int from, const Shifted& part) override {
    const auto size = static_cast<std::size_t>(part.bytes);
    std::vector<Mesh::Transfer> transfers;
    if (to >= 0) {
      transfers.push_back({members_[to], {static_cast<const std::byte*>(part.out), size}, {}});
    }
    if (from >= 0) {
      transfers.push_back({members_[from], {}, {static_cast<std::byte*>(part.in), size}});
    }
    mesh_->exchange(std::move(transfers), cancelled_);
  }

  /// Exchanges a part with every other rank.
  void exchange(const std::function<Part(int)>& part_of) const {
    std::vector<Mesh::Transfer> transfers;
    for (int other = 0; other < world_size(); ++other) {
      if (other == rank_) continue;
      const auto [out, in] = part_of(other);
      transfers.push_back({members_[other], out, in});
    }
    mesh_->exchange(std::move(transfers), cancelled_);
  }

  std::shared_ptr<const Mesh> mesh_;
  std::vector<int> members_;
  int rank_;
};

}  // namespace

std::unique_ptr<HostCollectives> make_mesh_collectives(std::shared_ptr<const Mesh> mesh) {
  std::vector<int> all(static_cast<std::size_t>(mesh->world_size()));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<MeshCollectives>(std::move(mesh), std::move(all));
}

}  // namespace athanor
