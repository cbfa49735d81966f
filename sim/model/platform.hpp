// SPDX-License-Identifier: Apache-2.0
// Platform: a machine as measured or as its data sheets state it.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/lane.hpp"
#include "sim/model/provenance.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

/// Seconds as a function of size: linear between measured points (ascending sizes), constant below
/// the first, continued with the last slope above the last.
struct Curve {
  struct Point {
    double size = 0;  ///< bytes or elements
    Seconds seconds = 0;
    Seconds spread = 0;
  };
  std::vector<Point> points;
  [[nodiscard]] Seconds at(double size) const noexcept;  ///< 0 for an empty curve
};

/// Time of one collective for one number of ranks, by the bytes of the whole (gathered) buffer.
struct CollectiveCurve {
  int world_size = 1;  ///< 1 = the local copy or accumulation that replaces the collective
  Curve curve;
};

/// What several lanes use at once. `use` gives what one lane's activity takes at full speed when
/// it is alone, in the resource's own unit per second (bytes/s for memory or a bridge, cores for
/// cores). Activities that together ask for more than `capacity` share it max-min fairly.
struct SharedResource {
  enum class Scope { Node, Device };  ///< one for all ranks of the node, or one per rank
  std::string name;
  Scope scope = Scope::Node;
  double capacity = 0;
  std::map<Lane, double> use;
};

/// Lanes that ran at once on each of `ranks` ranks, and how many times longer an activity of each
/// took than one alone. A collective is one activity of all ranks.
struct ContentionSample {
  int ranks = 1;
  std::map<Lane, double> slowdown;
};

/// "h2d + cpu-adam on 4 ranks": for names and messages.
[[nodiscard]] std::string sample_name(const ContentionSample& load);

/// One measured pair: how many times longer each takes beside the other than alone.
struct Disturbance {
  std::string first, second;  ///< lane names; "compute" beside "compute" is another rank's
  double first_slowdown = 1, second_slowdown = 1;
};

/// A limit on a device's mean power, in which a moment counts by how long ago it was: by
/// exp(-t / window).
struct PowerLimit {
  double watts = 0;
  Seconds window = 0;
};

/// What a device draws, and what its kernels may draw before they slow down.
struct PowerModel {
  double idle_watts = 0;               ///< between kernels
  std::vector<PowerLimit> limits;      ///< the lowest is what sustained load settles at
  std::map<Lane, double> lane_watts;   ///< what a lane's activity adds; compute: a memory-bound one
  double matmul_flops_per_second = 0;  ///< of matrix products at full clock
  double matmul_watts = 0;             ///< theirs
  double exponent = 0;  ///< theirs: under a limit, watts above idle go with speed^exponent
};

/// How nodes of one kind reach each other.
struct Network {
  int max_nodes = 1;            ///< that a job can have
  int nics = 1;                 ///< of each node, which its ranks use evenly
  double bytes_per_second = 0;  ///< of one NIC, each direction
  Seconds latency = 0;          ///< through a node and on to the next, of the least message
};

/// One node, and how it reaches others of its kind.
struct Platform {
  std::string name;
  std::string device;       ///< "NVIDIA H200" or the processor's name for the CPU backend
  std::string backend;      ///< "cpu" or "cuda"
  int num_devices = 1;      ///< ranks that the node can hold
  Bytes device_memory = 0;  ///< of one device
  Bytes host_memory = 0;    ///< of the node
  int host_cores = 1;
  double matmul_flops_per_second =
      0;           ///< sustained, one device: the peak that utilization refers to
  Curve h2d, d2h;  ///< one copy alone, pinned memory, by bytes
  /// The d2h lane adds gradients to fp32 sums in host memory, by bytes of the sums; empty: it takes
  /// as long as reading the sums by h2d and writing them by d2h.
  Curve d2h_add;
  std::vector<CollectiveCurve> all_gather, reduce_scatter, all_reduce;
  std::map<int, Curve> cpu_adam;  ///< threads -> seconds by elements (fp32 state)
  /// The same beside the old state, which stays; empty: as long as in place, since it moves as
  /// much.
  std::map<int, Curve> cpu_adam_beside;
  Curve device_adam;                         ///< seconds by elements
  Curve device_square_sum, host_square_sum;  ///< partial gradient norm, by elements
  Curve file_read, file_write;               ///< by bytes
  /// Host time to put one operation on the lane's stream, beside what a profile says of a unit's
  /// phases; lanes without an entry are not issued (CPU backend: running is issuing).
  std::map<Lane, Seconds> issue;
  /// What lanes do to each other: by what they share, or as measured, but not both.
  std::vector<SharedResource> shared;
  /// Threads of the CPU Adam that `shared` describes; 0: each rank's part of the node's cores.
  int shared_adam_threads = 0;
  std::vector<ContentionSample> contention;
  std::optional<PowerModel> power;  ///< of one device; none: kernels take what the profile says
  std::optional<Network> network;   ///< none: a job has one node
  std::vector<Disturbance> disturbances;  ///< a record beside `shared`; nothing is computed from it
  Provenance provenance;

  /// Whether a job can have so many ranks: some of one node's devices, or all of several nodes'.
  [[nodiscard]] bool holds(int world_size) const noexcept;
  /// "1 to 8, or 16, 24, .. 64": what holds() takes, for messages.
  [[nodiscard]] std::string world_sizes() const;
  [[nodiscard]] int ranks_per_node(int world_size) const noexcept {
    return network ? std::min(world_size, num_devices) : world_size;
  }
  [[nodiscard]] int num_nodes(int world_size) const noexcept {
    const int ranks = ranks_per_node(world_size);
    return (world_size + ranks - 1) / ranks;
  }
  /// Whether a shared resource or a measured load says what the lane takes from others.
  [[nodiscard]] bool shares(Lane lane) const noexcept;
  /// What one of `world_size` equal ranks gets of a resource.
  [[nodiscard]] double capacity_per_rank(const SharedResource& resource,
                                         int world_size) const noexcept;

  void validate(const std::string& where) const;
};

/// A collective that runs as a ring, and where a platform keeps its curves.
struct RingCollective {
  std::vector<CollectiveCurve> Platform::* curves;
  const char* key;  ///< in platform files
  int passes;       ///< how often a ring passes the buffer round
};
inline constexpr RingCollective kAllGather{&Platform::all_gather, "all_gather", 1};
inline constexpr RingCollective kReduceScatter{&Platform::reduce_scatter, "reduce_scatter", 1};
inline constexpr RingCollective kAllReduce{&Platform::all_reduce, "all_reduce", 2};

}  // namespace athanor
