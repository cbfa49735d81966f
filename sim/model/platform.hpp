// SPDX-License-Identifier: Apache-2.0
// Platform: a machine, measured or from its data sheets.
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

/// Seconds of one collective for one number of ranks, by bytes of the whole (gathered) buffer.
struct CollectiveCurve {
  int world_size = 1;  ///< 1: the local copy or addition that replaces the collective
  Curve curve;
};

/// Something that several lanes use at once. `use` is the demand of one lane's activity that runs
/// alone, in the resource's own unit (bytes/s of memory or a bridge, a number of cores). Activities
/// that together ask for more than `capacity` share it max-min fairly.
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
  /// Lane::D2H added gradients to sums in host memory, which a kernel does, instead of copying.
  bool d2h_adds = false;
};

/// Name of a sample, for messages: "h2d + cpu-adam on 4 ranks", "compute + d2h that adds".
[[nodiscard]] std::string sample_name(const ContentionSample& sample);

/// Limit on a device's mean power. A moment t seconds ago has the weight exp(-t / window).
struct PowerLimit {
  double watts = 0;
  Seconds window = 0;
};

/// Power draw of a device, and the limits above which its kernels slow down.
struct PowerModel {
  double idle_watts = 0;           ///< between kernels
  std::vector<PowerLimit> limits;  ///< sustained load settles at the lowest
  std::map<Lane, double>
      lane_watts;  ///< power draw of a lane's activity; compute: a memory-bound kernel
  double matmul_flops_per_second = 0;  ///< rate of unthrottled matrix products
  double matmul_watts = 0;             ///< their power draw
  double exponent = 0;  ///< under a limit, their watts above idle go with speed^exponent
};

/// Seconds in which each of `ranks` ranks of a node sends bytes to a rank of another node and gets
/// as many from it, by those bytes.
struct LinkCurve {
  int ranks = 1;
  Curve curve;
};

/// Network between nodes of one kind.
struct Network {
  int max_nodes = 1;            ///< nodes that a job can have at most
  int nics = 1;                 ///< NICs of each node; its ranks use them evenly
  double bytes_per_second = 0;  ///< rate of one NIC in each direction
  Seconds latency = 0;          ///< smallest message, through a node and on to the next
  /// As measured, in ascending order of ranks. Empty: the NICs' rate, whatever the size.
  std::vector<LinkCurve> links = {};  // NOLINT(readability-redundant-member-init)
};

/// Kind of a file system. Figures of one kind say little about another.
struct FileSystem {
  std::string type;    ///< "ext4", as /proc/self/mountinfo has it
  std::string device;  ///< "nvme", "ssd", "hdd", "virtual", or "none" for one without a disk
  bool operator==(const FileSystem&) const = default;
};

/// One calibration, as a rate knows it that several were pooled into.
struct Look {
  std::string date;     ///< ISO 8601 day
  Seconds seconds = 0;  ///< time of the largest size with most threads, as measured
  double ratio = 1;     ///< how many times as long as in the platform's own look operations took
  double scatter = 0;   ///< relative standard deviation of the ratio by how repetitions scatter
};

/// How a lane's rate follows from several looks at machines of one kind (sim/rates/pooled_looks).
struct PooledRate {
  double factor = 1;        ///< the lane's curves are those of the platform's own look, times this
  double between = 0;       ///< relative standard deviation of the rates of such machines
  double spread = 0;        ///< that of the rate in a run around the pooled one
  std::vector<Look> looks;  ///< the platform's own, whose ratio is 1, and earlier ones
  [[nodiscard]] bool holds(const Look& look) const noexcept;  ///< by its date and its seconds
};

/// One node, and how it reaches others of its kind.
struct Platform {
  std::string name;
  std::string device;       ///< "NVIDIA H200" or the processor's name for the CPU backend
  std::string backend;      ///< "cpu" or "cuda"
  int num_devices = 1;      ///< ranks that the node can hold
  Bytes device_memory = 0;  ///< memory of one device
  Bytes host_memory = 0;    ///< memory of the node
  int host_cores = 1;
  std::string processor;  ///< the host's, by its own name and model; empty: not recorded
  double matmul_flops_per_second = 0;  ///< sustained rate of one device; utilization refers to it
  Curve h2d, d2h;                      ///< one copy alone, pinned memory, by bytes
  /// Addition of gradients to fp32 sums in host memory on the d2h lane, by bytes of the sums.
  /// Empty: as long as reading the sums by h2d and writing them by d2h.
  Curve d2h_add;
  std::vector<CollectiveCurve> all_gather, reduce_scatter, all_reduce;
  /// Every rank sends every other rank a part of its buffer. None for a number of ranks: as long as
  /// an all-gather of a buffer of that size, in which a rank sends and gets as much.
  std::vector<CollectiveCurve> all_to_all;
  std::map<int, Curve> cpu_adam;  ///< threads -> seconds by elements (fp32 state)
  /// Updates that write new state beside the old, which they keep. Empty: as long as in place,
  /// since as many bytes move.
  std::map<int, Curve> cpu_adam_beside;
  Curve device_adam;                         ///< seconds by elements
  Curve device_square_sum, host_square_sum;  ///< partial gradient norm, by elements
  Curve file_read, file_write;               ///< by bytes
  std::optional<FileSystem> file_system;     ///< on which files were measured; none: unknown
  /// Host time to put one operation on the lane's stream. A unit's phases have theirs in the
  /// profile. Lanes without an entry are not issued (CPU backend: running is issuing).
  std::map<Lane, Seconds> issue;
  /// Contention between lanes: each lane is in `shared` or in `contention`, never in both.
  std::vector<SharedResource> shared;
  /// Threads of the CPU Adam that `shared` describes; 0: the node's cores divided by its ranks.
  int shared_adam_threads = 0;
  std::vector<ContentionSample> contention;
  std::optional<PowerModel> power;  ///< one device; none: kernels take the profile's time
  std::optional<Network> network;   ///< none: a job has one node
  /// Rates that are not those of one look. Their curves hold the pooled rate.
  std::map<Lane, PooledRate> pooled;
  Provenance provenance;

  /// Whether a job can have `world_size` ranks: on some devices of one node, or on all of several.
  [[nodiscard]] bool holds(int world_size) const noexcept;
  /// Numbers of ranks that holds() accepts, for messages: "1 to 8, or 16, 24, .. 64".
  [[nodiscard]] std::string world_sizes() const;
  [[nodiscard]] int ranks_per_node(int world_size) const noexcept {
    return network ? std::min(world_size, num_devices) : world_size;
  }
  [[nodiscard]] int num_nodes(int world_size) const noexcept {
    const int ranks = ranks_per_node(world_size);
    return (world_size + ranks - 1) / ranks;
  }
  /// Whether a shared resource or a contention sample names the lane.
  [[nodiscard]] bool shares(Lane lane) const noexcept;
  /// Part of a resource's capacity that each of `world_size` equal ranks gets.
  [[nodiscard]] double capacity_per_rank(const SharedResource& resource,
                                         int world_size) const noexcept;

  void validate(const std::string& where) const;
};

/// A collective that runs as a ring, and its curves in a platform.
struct RingCollective {
  std::vector<CollectiveCurve> Platform::* curves;
  const char* key;  ///< in platform files
  int passes;       ///< number of times that the ring passes the buffer round
};
inline constexpr RingCollective kAllGather{&Platform::all_gather, "all_gather", 1};
inline constexpr RingCollective kReduceScatter{&Platform::reduce_scatter, "reduce_scatter", 1};
inline constexpr RingCollective kAllToAll{&Platform::all_to_all, "all_to_all", 1};
inline constexpr RingCollective kAllReduce{&Platform::all_reduce, "all_reduce", 2};
inline constexpr std::array kRingCollectives{kAllGather, kReduceScatter, kAllReduce, kAllToAll};

}  // namespace athanor
