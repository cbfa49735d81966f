// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/device_arena.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace athanor {
namespace {

TEST_CASE("an arena counts bytes as requested") {
  DeviceArena arena;
  void* const first = arena.allocate(1);
  void* const second = arena.allocate(1000);
  CHECK(arena.live() == 1001);
  arena.release(first);
  CHECK(arena.live() == 1000);
  CHECK(arena.peak() == 1001);
  arena.reset_peak();
  CHECK(arena.peak() == 1000);
  arena.release(second);
  CHECK(arena.live() == 0);
}

TEST_CASE("blocks are aligned to a cache line and writable to their end") {
  DeviceArena arena;
  for (const Bytes bytes : {1, 63, 64, 65, 100'000}) {
    const DeviceBlock block(arena, bytes);
    REQUIRE(reinterpret_cast<std::uintptr_t>(block.data()) % 64 == 0);
    std::memset(block.data(), 0xAB, static_cast<std::size_t>(bytes));
  }
  CHECK(arena.live() == 0);
}

TEST_CASE("an allocation of zero bytes is a null pointer") {
  DeviceArena arena;
  CHECK(arena.allocate(0) == nullptr);
  arena.release(nullptr);
  CHECK(arena.peak() == 0);
}

TEST_CASE("an arena refuses a request beyond its limit and stays usable") {
  DeviceArena arena(1000);
  const DeviceBlock block(arena, 600);
  REQUIRE_THROWS_AS(arena.allocate(401), OutOfDeviceMemory);
  CHECK(arena.live() == 600);
  CHECK(arena.peak() == 600);
  const DeviceBlock rest(arena, 400);
  CHECK(arena.live() == 1000);
  REQUIRE_THROWS_WITH(arena.allocate(1), Catch::Matchers::ContainsSubstring("limit 1000 B"));
}

TEST_CASE("a moved block has one owner") {
  DeviceArena arena;
  DeviceBlock first(arena, 10);
  DeviceBlock second(std::move(first));
  CHECK(arena.live() == 10);
  DeviceBlock third(arena, 20);
  third = std::move(second);
  CHECK(arena.live() == 10);
  CHECK(third.size() == 10);
  third = DeviceBlock();
  CHECK(arena.live() == 0);
}

TEST_CASE("a released block serves the next request of its size") {
  DeviceArena arena;
  void* const first = arena.allocate(5000);
  arena.release(first);
  CHECK(arena.live() == 0);
  void* const second = arena.allocate(5000);
  CHECK(second == first);
  arena.release(second);
  // A larger request than was ever live leaves no room for kept blocks; counting stays exact.
  const DeviceBlock large(arena, 6000);
  CHECK(arena.live() == 6000);
  CHECK(arena.peak() == 6000);
}

TEST_CASE("a block finds its arena") {
  DeviceArena first;
  DeviceArena second;
  void* const a = first.allocate(10);
  void* const b = second.allocate(20);
  void* const uncounted = allocate_uncounted(30);
  std::memset(uncounted, 1, 30);
  release_block(b);
  CHECK(first.live() == 10);
  CHECK(second.live() == 0);
  release_block(a);
  release_block(uncounted);
  release_block(nullptr);
  CHECK(first.live() == 0);
  CHECK(allocate_uncounted(0) == nullptr);
}

TEST_CASE("random traffic is counted exactly and blocks do not overlap") {
  DeviceArena arena;
  std::mt19937 random(7);
  std::vector<std::pair<std::uint8_t, DeviceBlock>> blocks;
  Bytes live = 0;
  for (int i = 0; i < 5000; ++i) {
    if (blocks.size() > 20 || (!blocks.empty() && random() % 2 == 0)) {
      const std::size_t victim = random() % blocks.size();
      const auto* const bytes = static_cast<const std::uint8_t*>(blocks[victim].second.data());
      const Bytes size = blocks[victim].second.size();
      REQUIRE(std::all_of(bytes, bytes + size,
                          [&](std::uint8_t byte) { return byte == blocks[victim].first; }));
      live -= size;
      std::swap(blocks[victim], blocks.back());
      blocks.pop_back();
    } else {
      const Bytes size = 1 + random() % 7 * 1000;
      blocks.emplace_back(std::uint8_t(i), DeviceBlock(arena, size));
      std::memset(blocks.back().second.data(), i, static_cast<std::size_t>(size));
      live += size;
    }
    REQUIRE(arena.live() == live);
  }
}

TEST_CASE("threads may share an arena") {
  DeviceArena arena;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&arena] {
        for (int i = 0; i < 1000; ++i) {
          const DeviceBlock block(arena, 1 + i % 100);
        }
      });
    }
  }
  CHECK(arena.live() == 0);
  CHECK(arena.peak() <= 400);
}

}  // namespace
}  // namespace athanor
