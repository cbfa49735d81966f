// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/node_bench.hpp"

#include "calibrate/activities/activities.hpp"
#include "executor/backend/gather.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace athanor {
namespace {

std::vector<int> first(int count) {
  std::vector<int> members(static_cast<std::size_t>(count));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

bool contains(const std::vector<int>& members, int rank) {
  return std::ranges::find(members, rank) != members.end();
}

/// Measures one all-to-all of a pair while the other pairs of `all` make theirs.
Curve measure_pairs_at_once(Collectives& all, Collectives& pair, const std::vector<Bytes>& sizes,
                            const StoppingRule& rule) {
  Curve curve;
  for (const Bytes size : sizes) {
    const Bytes part = round_up(size, Bytes{sizeof(float)});
    const std::vector<float> from = random_floats(2 * part / Bytes{sizeof(float)}, 1);
    std::vector<float> to(from.size());
    const Samples samples =
        measure_on_all_ranks(all, rule, [&] { pair.all_to_all(from.data(), to.data(), part); });
    curve.points.push_back(
        {static_cast<double>(part), samples.median(), samples.interquartile_range()});
  }
  return curve;
}

Seconds longest(const Curve& curve) { return curve.points.back().seconds; }

}  // namespace

JobShape shape_of(const RankInfo& rank, Collectives& ranks) {
  const std::vector<int> local = gather(ranks, rank.local_rank);
  const auto nodes = static_cast<int>(std::ranges::count(local, 0));
  const int per_node = rank.world_size / std::max(nodes, 1);
  for (int other = 0; other < rank.world_size; ++other) {
    if (local[static_cast<std::size_t>(other)] == other % per_node) continue;
    throw InputError(
        "launcher",
        fmt::format("rank {} is number {} of its machine; the ranks of a machine have to follow "
                    "each other, as many on each",
                    other, local[static_cast<std::size_t>(other)]),
        "Fill one machine after the other (mpirun --host a:2,b:2 --map-by slot).");
  }
  return {nodes, per_node};
}

NodeBench::NodeBench(HostCollectives& ranks, const JobShape& shape, std::vector<Bytes> sizes,
                     const StoppingRule& rule)
    : ranks_(ranks), shape_(shape), sizes_(std::move(sizes)), rule_(rule) {}

CollectiveTimes NodeBench::collectives(int ranks) {
  return take_part_in_collectives(agree({Work::Collectives, ranks, 0}));
}

MeasuredLink NodeBench::link(int node, int ranks) {
  return {node, ranks, take_part_in_link(agree({Work::Link, ranks, node}))};
}

void NodeBench::end() { static_cast<void>(agree({})); }

void NodeBench::serve() {
  while (true) {
    const Order order = agree({});
    if (order.work == Work::End) return;
    if (order.work == Work::Collectives) {
      static_cast<void>(take_part_in_collectives(order));
    } else {
      static_cast<void>(take_part_in_link(order));
    }
  }
}

/// Returns rank 0's order.
NodeBench::Order NodeBench::agree(const Order& order) { return gather(ranks_, order).front(); }

CollectiveTimes NodeBench::take_part_in_collectives(const Order& order) {
  const std::vector<int> members = first(order.ranks);
  if (!contains(members, ranks_.rank())) return {};
  return measure_collectives(*ranks_.among(members), sizes_, rule_);
}

Curve NodeBench::take_part_in_link(const Order& order) {
  const int shift = order.node * shape_.ranks_per_node;
  std::vector<int> members = first(order.ranks);
  for (int rank = 0; rank < order.ranks; ++rank) members.push_back(rank + shift);
  if (!contains(members, ranks_.rank())) return {};
  const int own = ranks_.rank() < order.ranks ? ranks_.rank() : ranks_.rank() - shift;
  const auto all = ranks_.among(members);
  const auto pair = ranks_.among({own, own + shift});
  return measure_pairs_at_once(*all, *pair, sizes_, rule_);
}

Network network_of(const std::vector<MeasuredLink>& links, int nodes) {
  Network network{.max_nodes = nodes};
  for (const MeasuredLink& link : links) {
    const auto same = std::ranges::find(network.links, link.ranks, &LinkCurve::ranks);
    if (same == network.links.end()) {
      network.links.push_back({link.ranks, link.curve});
    } else if (longest(link.curve) > longest(same->curve)) {
      same->curve = link.curve;
    }
  }
  std::ranges::sort(network.links, {}, &LinkCurve::ranks);
  const LinkCurve& widest = network.links.back();
  network.bytes_per_second = widest.ranks * widest.curve.points.back().size / longest(widest.curve);
  network.latency = network.links.front().curve.points.front().seconds;
  return network;
}

}  // namespace athanor
