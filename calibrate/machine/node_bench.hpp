// SPDX-License-Identifier: Apache-2.0
// Measurements between the ranks of a job: rank 0 asks for them, and the others take part.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "calibrate/machine/collective_curves.hpp"
#include "executor/backend/host_collectives.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/model/platform.hpp"

#include <vector>

namespace athanor {

/// Nodes of a job with equal numbers of ranks, one node's after the other's.
struct JobShape {
  int nodes = 1, ranks_per_node = 1;
};

/// Returns how the ranks of this job are placed. Every rank calls it. Throws InputError where nodes
/// have different numbers of ranks, or a node's do not follow each other.
[[nodiscard]] JobShape shape_of(const RankInfo& rank, Collectives& ranks);

/// Curve between the first node and another.
struct MeasuredLink {
  int node = 1, ranks = 1;
  Curve curve;  ///< seconds by bytes that each rank sends, and gets
};

class NodeBench {
 public:
  NodeBench(HostCollectives& ranks, const JobShape& shape, std::vector<Bytes> sizes,
            const StoppingRule& rule);

  /// Rank 0: measures collectives between the first `ranks` ranks.
  [[nodiscard]] CollectiveTimes collectives(int ranks);
  /// Rank 0: measures what `ranks` ranks of the first node and as many of `node` send each other,
  /// in pairs, all at once and in both directions.
  [[nodiscard]] MeasuredLink link(int node, int ranks);
  /// Rank 0: lets the others return.
  void end();
  /// The others: take part until rank 0 ends.
  void serve();

  [[nodiscard]] const JobShape& shape() const noexcept { return shape_; }

 private:
  enum class Work { End, Collectives, Link };
  struct Order {
    Work work = Work::End;
    int ranks = 0, node = 0;
  };

  [[nodiscard]] Order agree(const Order& order);
  [[nodiscard]] CollectiveTimes take_part_in_collectives(const Order& order);
  [[nodiscard]] Curve take_part_in_link(const Order& order);

  HostCollectives& ranks_;
  JobShape shape_;
  std::vector<Bytes> sizes_;
  StoppingRule rule_;
};

/// Returns the network between the nodes, from every link between the first and another: that of
/// the slowest of them.
[[nodiscard]] Network network_of(const std::vector<MeasuredLink>& links, int nodes);

}  // namespace athanor
