// SPDX-License-Identifier: Apache-2.0
// Jobs of several nodes: the numbers of ranks that they may have, and the costs of their
// collectives.
#include "sim/base/errors.hpp"
#include "sim/cost/costs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

constexpr double kBytes = 1 << 20;

/// Returns nodes of `devices` whose links move `link` bytes per second. A ring moves (n - 1) / n of
/// the buffer on n ranks, twice that for an all-reduce.
Platform nodes_of(int devices, double link, const Network& network) {
  const auto ring = [=](int ranks, double passes) {
    const double seconds = passes * (ranks - 1) / ranks * kBytes / link;
    return CollectiveCurve{ranks, {{{0, 0, 0}, {kBytes, seconds, 0}}}};
  };
  Platform platform;
  platform.name = "cluster";
  platform.num_devices = devices;
  platform.network = network;
  for (int ranks = 1; ranks <= devices; ++ranks) {
    platform.all_gather.push_back(ring(ranks, 1));
    platform.reduce_scatter.push_back(ring(ranks, 1));
    platform.all_reduce.push_back(ring(ranks, 2));
  }
  return platform;
}

Seconds seconds_of(OpKind kind, bool all_reduce, int world_size, const Platform& platform) {
  Program program;
  program.world_size = world_size;
  Operation op;
  op.kind = kind;
  op.lane = Lane::Collective;
  op.all_reduce = all_reduce;
  op.bytes = static_cast<Bytes>(kBytes);
  return solo_seconds(op, program, platform);
}

TEST_CASE("a job has some devices of one node or all devices of several") {
  Platform platform;
  platform.num_devices = 4;
  CHECK(platform.holds(1));
  CHECK(platform.holds(3));
  CHECK(platform.holds(4));
  CHECK_FALSE(platform.holds(0));
  CHECK_FALSE(platform.holds(8));
  CHECK(platform.world_sizes() == "1 to 4");
  platform.network = Network{.max_nodes = 3};
  CHECK(platform.holds(3));
  CHECK_FALSE(platform.holds(6));
  CHECK(platform.holds(12));
  CHECK_FALSE(platform.holds(16));
  CHECK(platform.world_sizes() == "1 to 4, or 8, 12");
  CHECK(platform.num_nodes(3) == 1);
  CHECK(platform.ranks_per_node(3) == 3);
  CHECK(platform.num_nodes(12) == 3);
  CHECK(platform.ranks_per_node(12) == 4);
  platform.network->max_nodes = 32;
  CHECK(platform.world_sizes() == "1 to 4, or 8, 12, .. 128");
}

TEST_CASE("each of n nodes sends a ring's share of the buffer through all its NICs") {
  const Network slow{.max_nodes = 8, .nics = 2, .bytes_per_second = 5e8, .latency = 2e-6};
  const Platform platform = nodes_of(4, 1e12, slow);
  const Seconds sent = 15.0 / 16 * kBytes / (2 * 5e8);  // 16 ranks on 4 nodes: 3 hops
  CHECK_THAT(seconds_of(OpKind::Gather, false, 16, platform), WithinRel(sent + 3 * 2e-6, 1e-12));
  CHECK_THAT(seconds_of(OpKind::Reduce, false, 16, platform), WithinRel(sent + 3 * 2e-6, 1e-12));
  CHECK_THAT(seconds_of(OpKind::Reduce, true, 16, platform),
             WithinRel(2 * (sent + 3 * 2e-6), 1e-12));
}

TEST_CASE("the links inside a node decide where the network is faster") {
  const Network fast{.max_nodes = 8, .nics = 4, .bytes_per_second = 1e12, .latency = 0};
  const Platform platform = nodes_of(4, 1e9, fast);
  CHECK_THAT(seconds_of(OpKind::Gather, false, 8, platform),
             WithinRel(7.0 / 8 * kBytes / 1e9, 1e-12));
  CHECK_THAT(seconds_of(OpKind::Reduce, true, 32, platform),
             WithinRel(2 * 31.0 / 32 * kBytes / 1e9, 1e-12));
}

TEST_CASE("nodes of one device use the network alone") {
  const Network network{.max_nodes = 8, .nics = 1, .bytes_per_second = 1e9, .latency = 1e-3};
  const Platform platform = nodes_of(1, 1e3, network);
  CHECK_THAT(seconds_of(OpKind::Gather, false, 4, platform),
             WithinRel(3.0 / 4 * kBytes / 1e9 + 3e-3, 1e-12));
}

TEST_CASE("a curve measured on as many ranks is used unchanged") {
  const Network network{.max_nodes = 8, .nics = 1, .bytes_per_second = 1e9, .latency = 1e-3};
  Platform platform = nodes_of(2, 1e9, network);
  platform.all_gather.push_back({4, {{{kBytes, 42, 0}}}});
  CHECK(seconds_of(OpKind::Gather, false, 4, platform) == 42);
}

/// A link on which a rank's first byte takes `start` and the others go at `rate`.
LinkCurve link_of(int ranks, Seconds start, double rate) {
  return {ranks, {{{0, start, 0}, {16 * kBytes, start + 16 * kBytes / rate, 0}}}};
}

TEST_CASE("a ring leaves a node from the number of ranks that was measured to be fastest") {
  Network network{.max_nodes = 4, .nics = 1, .bytes_per_second = 1, .latency = 1e-3};
  network.links = {link_of(1, 1e-3, 3e9), link_of(2, 1e-3, 1e9)};
  const Platform platform = nodes_of(2, 1e12, network);
  const double sent = 7.0 / 8 * kBytes;  // 8 ranks on 4 nodes: 3 hops
  CHECK_THAT(seconds_of(OpKind::Gather, false, 8, platform), WithinRel(sent / 3e9 + 3e-3, 1e-12));
  CHECK_THAT(seconds_of(OpKind::Reduce, true, 8, platform),
             WithinRel(2 * (sent / 3e9 + 3e-3), 1e-12));
}

TEST_CASE("tokens leave a node from all of its ranks") {
  Network network{.max_nodes = 2, .nics = 1, .bytes_per_second = 1, .latency = 1e-3};
  network.links = {link_of(1, 1e-3, 3e9), link_of(2, 1e-3, 1e9)};
  const Platform platform = nodes_of(2, 1e12, network);
  CHECK_THAT(seconds_of(OpKind::Dispatch, false, 4, platform),
             WithinRel(kBytes / 2 / 1e9 + 1e-3, 1e-12));  // each sends half of its buffer
}

TEST_CASE("a faster network or more NICs never make a collective slower") {
  for (const int world_size : {2, 4, 6, 16}) {
    Seconds before = 1e9;
    for (double rate = 1e7; rate < 1e12; rate *= 3) {
      for (const int nics : {1, 2}) {
        const Network network{8, nics, rate, 1e-6};
        const Seconds now =
            seconds_of(OpKind::Gather, false, world_size, nodes_of(2, 1e10, network));
        CHECK(now <= before);
        before = now;
      }
    }
  }
}

TEST_CASE("more ranks than the platform holds are refused with a list of its curves") {
  const Platform platform = nodes_of(2, 1e9, Network{.max_nodes = 2, .bytes_per_second = 1e9});
  CHECK_THROWS_WITH(seconds_of(OpKind::Gather, false, 6, platform),
                    ContainsSubstring("no curve for 6 ranks (there is: 1, 2)"));
}

}  // namespace
}  // namespace athanor
