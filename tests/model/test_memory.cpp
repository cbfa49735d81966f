// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/lowering.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/memory.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>

namespace athanor {
namespace {

using test::random_plan;
using test::small_architecture;
using test::small_profile;
using test::uniform_plan;

// Elements of the small architecture: embedding 800 + 64 (56 rounded), a block 32 + 288 + 288 (264
// rounded), the head 32 + 800.
constexpr Bytes kEmbedding = 864;
constexpr Bytes kBlock = 608;
constexpr Bytes kHead = 832;

TEST_CASE(
    "a replicated plan on one device holds parameters, gradients, shards and two moments in fp32") {
  const Architecture architecture = small_architecture(2, false);
  const Plan plan = uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Gpu);
  const Program program = lower(small_profile(architecture, 1), plan);
  const Bytes elements = kEmbedding + 2 * kBlock + kHead;
  // Static memory is one allocation, in whole blocks of 512.
  const Bytes used = elements * (4 + 4 + 8) + (kEmbedding + 2 * kBlock + kHead) * 4;
  const Bytes statics = (used + 511) / 512 * 512;
  REQUIRE(used % 512 != 0);
  // All saved activations are live when the last backward starts: 256 batch + embedding (1064) +
  // blocks (1564 each) + head (2064). The head's backward needs 64 + 29 more.
  const Bytes dynamic = 256 + 1064 + 2 * 1564 + 2064 + 64 + 29;
  const TierBytes peak = peak_bytes(program);
  CHECK(peak.gpu == statics + dynamic);
  CHECK(peak.pinned == 0);
  CHECK(peak.host == 0);
}

TEST_CASE("a plan sharded over two ranks and on the host keeps slots and gradients on the device") {
  const Architecture architecture = small_architecture(4, false);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Host, Home::Host);
  plan.cache_slots = 3;
  plan.gradient_buffers = 1;
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Recompute;
  const TierBytes peak = peak_bytes(lower(small_profile(architecture, 1), plan));
  // Shards of two ranks are cut at multiples of 64: embedding 896, block 640, head 832.
  const Bytes slots = (896 + 3 * 640 + 832) * 4;
  const Bytes gradients = (896 + 640 + 832) * 4;
  // The head's backward has batch, five outputs of 64 and its own saved 2064, then 64 + 29 more.
  CHECK(peak.gpu == slots + gradients + 256 + 5 * 64 + 2064 + 64 + 29);
  const Bytes owned = (896 + 4 * 640 + 832) / 2;
  CHECK(peak.pinned == owned * (4 + 4));
  CHECK(peak.host == owned * 8);
}

TEST_CASE("offloaded outputs are in pinned memory, except those of the last units") {
  const Architecture architecture = small_architecture(4, false);
  const Profile profile = small_profile(architecture, 1);
  Plan plan = uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Gpu);
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Recompute;
  const TierBytes on_device = peak_bytes(lower(profile, plan));
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Offload;
  const TierBytes offloaded = peak_bytes(lower(profile, plan));
  CHECK(offloaded.pinned == 3 * 64);
  // The peak is in the head's backward: two of five outputs are on the device.
  CHECK(offloaded.gpu == on_device.gpu - 3 * 64);
}

TEST_CASE("a step frees all that it allocates") {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Architecture architecture = small_architecture(1 + i % 4, i % 2 == 0);
    const Plan plan = random_plan(architecture, random);
    const Program program = lower(small_profile(architecture, 1, plan.dtype), plan);
    Bytes statics = 0;
    for (const Buffer& buffer : program.static_buffers) {
      if (buffer.tier == Tier::Gpu) statics += buffer.bytes;
    }
    const auto points = device_memory_profile(program);
    CHECK(points.back().after == statics);
    CHECK(std::ranges::all_of(points, [&](const MemoryPoint& point) {
      return point.after >= statics && point.peak >= point.after;
    }));
  }
}

TEST_CASE("recompute never needs more memory than keep, and sharded never more than replicated") {
  const Architecture architecture = small_architecture(5, false);
  const Profile profile = small_profile(architecture, 1);
  Plan keep = uniform_plan(architecture, 4, Sharding::Replicated, Home::Gpu, Home::Gpu);
  Plan recompute = keep;
  for (UnitPlan& unit : recompute.units) unit.activation = Activation::Recompute;
  CHECK(peak_bytes(lower(profile, recompute)).gpu < peak_bytes(lower(profile, keep)).gpu);
  const Plan sharded = uniform_plan(architecture, 4, Sharding::Sharded, Home::Gpu, Home::Gpu);
  CHECK(peak_bytes(lower(profile, sharded)).gpu < peak_bytes(lower(profile, keep)).gpu);
}

TEST_CASE("moments in int8 have the same blocks under every plan, and take 2 bytes and 2 scales") {
  Architecture architecture = small_architecture(2, false);
  for (std::size_t block : {1, 2}) architecture.units[block].parameters[1].shape = {300, 100};
  for (const int ranks : {1, 2, 3, 8}) {
    for (const std::int64_t chunk_elements : {1, 5'000, 1 << 20}) {
      Plan plan =
          uniform_plan(architecture, ranks, Sharding::OptimizerSharded, Home::Gpu, Home::Host);
      plan.dtype = DataType::BFloat16;
      plan.adam_state = AdamState::Int8;
      plan.chunk_elements = chunk_elements;
      std::int64_t elements = 0;
      for (std::size_t u = 0; u < plan.units.size(); ++u) {
        if (plan.units[u].chunks.empty()) continue;
        plan.units[u].chunks[0].count = num_chunks(architecture.units[u], chunk_elements, ranks,
                                                   weights_travel(), plan.adam_state);
      }
      for (const UnitLayout& layout : layout_units(architecture, plan)) {
        for (const Chunk& chunk : layout.chunks) {
          CHECK(chunk.offset % kMomentBlock == 0);
          CHECK(chunk.shard_elements(ranks) % kMomentBlock == 0);
          // The next array begins aligned, too.
          CHECK(chunk.shard_elements(ranks) / kMomentBlock * kMomentScaleBytes % 128 == 0);
          elements += chunk.shard_elements(ranks);
        }
      }
      Profile profile = small_profile(architecture, 1);
      profile.dtype = plan.dtype;
      Bytes state = 0;
      for (const Buffer& buffer : lower(profile, plan).static_buffers) {
        if (buffer.name.starts_with("host optimizer")) state += buffer.bytes;
      }
      CHECK(state == elements * 4 + elements / 256 * 8);  // with the rest of a split master
    }
  }
}

TEST_CASE("overflows name the tier, the need and the limit") {
  const TierBytes peak{.gpu = 3 * kGiB, .pinned = kGiB, .host = 2 * kGiB};
  CHECK(memory_overflows(peak, 2, {}).empty());
  CHECK(memory_overflows(peak, 2, {.gpu = 3 * kGiB, .host = 6 * kGiB}).empty());
  const auto overflows = memory_overflows(peak, 2, {.gpu = 2 * kGiB, .host = 5 * kGiB});
  REQUIRE(overflows.size() == 2);
  CHECK(overflows[0] == "gpu memory needs 3.00 GiB of 2.00 GiB (1.00 GiB too much)");
  CHECK(overflows[1] == "host memory needs 6.00 GiB of 5.00 GiB (1.00 GiB too much)");
}

}  // namespace
}  // namespace athanor
