// SPDX-License-Identifier: Apache-2.0
// Ranks of two nodes, as threads, measure what one cannot.
#include "calibrate/machine/node_bench.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/mesh_threads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>

namespace athanor::test {
namespace {

using Catch::Matchers::WithinRel;

constexpr int kRanks = 4;
const std::vector<Bytes> kSizes{256, 64 * kKiB};

/// Place of a rank, two on each node.
RankInfo place_of(const Collectives& ranks) {
  return {.rank = ranks.rank(), .world_size = kRanks, .local_rank = ranks.rank() % 2};
}

bool all_of(const std::vector<bool>& said) {
  return std::ranges::all_of(said, [](bool yes) { return yes; });
}

Curve curve(Seconds small, Seconds large) { return {{{64, small, 0}, {1e6, large, 0}}}; }

}  // namespace

TEST_CASE("rank 0 gets curves between all ranks and of the links, and the others serve it") {
  CollectiveTimes times;
  MeasuredLink link;
  CHECK(all_of(on_mesh(kRanks, [&](HostCollectives& ranks) {
    const JobShape shape = shape_of(place_of(ranks), ranks);
    NodeBench bench(ranks, shape, kSizes, {.min_repetitions = 2, .max_repetitions = 3});
    if (ranks.rank() == 0) {
      static_cast<void>(bench.collectives(2));
      times = bench.collectives(kRanks);
      link = bench.link(1, 2);
      bench.end();
    } else {
      bench.serve();
    }
    return shape.nodes == 2 && shape.ranks_per_node == 2;
  })));
  REQUIRE(times.all_gather.points.size() == kSizes.size());
  CHECK(times.all_reduce.points.back().size == 64 * kKiB);
  CHECK(link.ranks == 2);
  REQUIRE(link.curve.points.size() == kSizes.size());
  CHECK(link.curve.points.front().size == 256);
  CHECK(link.curve.points.front().seconds > 0);
}

TEST_CASE("ranks that alternate between machines are refused") {
  CHECK(all_of(on_mesh(kRanks, [](HostCollectives& ranks) {
    RankInfo place = place_of(ranks);
    place.local_rank = ranks.rank() / 2;  // mpirun --map-by node
    try {
      static_cast<void>(shape_of(place, ranks));
      return false;
    } catch (const InputError&) {
      return true;
    }
  })));
}

TEST_CASE("the network of several nodes is that of the slowest link") {
  const Network network = network_of({{1, 1, curve(1e-5, 1e-3)},
                                      {1, 2, curve(2e-5, 3e-3)},
                                      {2, 1, curve(4e-5, 5e-3)},
                                      {2, 2, curve(1e-5, 2e-3)}},
                                     3);
  CHECK(network.max_nodes == 3);
  CHECK(network.nics == 1);
  CHECK_THAT(network.latency, WithinRel(4e-5));
  CHECK_THAT(network.bytes_per_second, WithinRel(2 * 1e6 / 3e-3));
  REQUIRE(network.links.size() == 2);
  CHECK(network.links[0].curve.at(1e6) == 5e-3);
  CHECK(network.links[1].curve.at(1e6) == 3e-3);
}

}  // namespace athanor::test
