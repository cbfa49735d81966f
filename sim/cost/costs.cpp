// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/costs.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace athanor {
namespace {

/// Returns `curve` itself, which is part of `platform` or empty.
const Curve& require(const Curve& curve, const Platform& platform, const char* key) {
  if (!curve.points.empty()) return curve;  // NOLINT(bugprone-return-const-ref-from-parameter)
  throw InputError(fmt::format("platform {}:{}", platform.name, key), "the curve is empty",
                   "Calibrate the machine again, or give the figure from its data sheet.");
}

const Curve* find_curve(const RingCollective& collective, int world_size,
                        const Platform& platform) {
  const std::vector<CollectiveCurve>& curves = platform.*collective.curves;
  const auto found = std::ranges::find(curves, world_size, &CollectiveCurve::world_size);
  return found == curves.end() ? nullptr : &require(found->curve, platform, collective.key);
}

[[noreturn]] void refuse_world_size(const RingCollective& collective, int world_size,
                                    const Platform& platform) {
  std::string known;
  for (const CollectiveCurve& curve : platform.*collective.curves) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", curve.world_size);
  }
  throw InputError(fmt::format("platform {}:{}", platform.name, collective.key),
                   fmt::format("no curve for {} ranks (there is: {})", world_size,
                               known.empty() ? "none" : known),
                   "Calibrate with that many ranks (--ranks), or use a number of ranks listed.");
}

/// Returns the share of the buffer that every rank of a ring sends in one pass.
constexpr double ring_share(int ranks) noexcept { return (ranks - 1.0) / ranks; }

/// Time in which `ranks` ranks of a node together send `bytes` to others, and get as many: as
/// measured with as many ranks, or else at the rate of the NICs. Latency is not in it.
Seconds between_nodes(double bytes, int ranks, const Network& network) {
  const auto link = std::ranges::find(network.links, ranks, &LinkCurve::ranks);
  if (link == network.links.end()) return bytes / (network.nics * network.bytes_per_second);
  return std::max(0.0, link->curve.at(bytes / ranks) - network.latency);
}

/// A ring leaves a node from whatever number of its ranks is fastest.
Seconds ring_between_nodes(double bytes, int devices, const Network& network) {
  Seconds fastest = between_nodes(bytes, devices, network);
  for (const LinkCurve& link : network.links) {
    fastest = std::min(fastest, between_nodes(bytes, link.ranks, network));
  }
  return fastest;
}

/// A ring over all ranks enters and leaves every node once, as NCCL's do: inside nodes each rank
/// sends a little more than in a ring of one node, between nodes all NICs together send as much as
/// one rank. Both go on at once, piece by piece, and the slower one counts.
Seconds ring_over_nodes(const RingCollective& collective, double bytes, int world_size,
                        const Platform& platform) {
  const int devices = platform.num_devices;
  Seconds inside = 0;
  if (devices > 1) {
    const Curve* curve = find_curve(collective, devices, platform);
    if (curve == nullptr) refuse_world_size(collective, devices, platform);
    inside = curve->at(bytes * ring_share(world_size) / ring_share(devices));
  }
  const Network& network = *platform.network;
  const double sent = ring_share(world_size) * bytes;
  const Seconds between = collective.passes * ring_between_nodes(sent, devices, network);
  const int hops = collective.passes * (world_size / devices - 1);
  return std::max(inside, between) + hops * network.latency;
}

/// Takes the curve that was measured with that many ranks, else scales one node's curve over the
/// network.
Seconds collective_seconds(const RingCollective& collective, double bytes, int world_size,
                           const Platform& platform) {
  const Curve* curve = find_curve(collective, world_size, platform);
  if (curve != nullptr) return curve->at(bytes);
  if (world_size <= platform.num_devices || !platform.holds(world_size)) {
    refuse_world_size(collective, world_size, platform);
  }
  return ring_over_nodes(collective, bytes, world_size, platform);
}

/// The curve of the largest measured thread count that is not above `threads`, else the smallest.
const Curve& with_threads(const std::map<int, Curve>& curves, int threads) {
  const auto above = curves.upper_bound(threads);
  return (above == curves.begin() ? above : std::prev(above))->second;
}

const Curve& cpu_adam(const Platform& platform, int threads) {
  static const Curve kNone;
  if (platform.cpu_adam.empty()) return require(kNone, platform, "cpu_adam");
  return require(with_threads(platform.cpu_adam, threads), platform, "cpu_adam");
}

int part_of_cores(const Platform& platform, int num_ranks) {
  return std::max(1, platform.host_cores / num_ranks);
}

/// Returns the speed with `threads` over that with `others`, alone and on many elements; 1 if it is
/// not known.
double cpu_adam_speed(const Platform& platform, int threads, int others) {
  if (platform.cpu_adam.empty()) return 1;
  const Curve& measured = with_threads(platform.cpu_adam, others);
  if (measured.points.empty()) return 1;
  const double elements = measured.points.back().size;
  const Seconds theirs = measured.at(elements);
  const Seconds own = with_threads(platform.cpu_adam, threads).at(elements);
  return theirs > 0 && own > 0 ? theirs / own : 1;
}

const Curve& cpu_adam_beside(const Platform& platform, int threads) {
  if (platform.cpu_adam_beside.empty()) return cpu_adam(platform, threads);
  return require(with_threads(platform.cpu_adam_beside, threads), platform, "cpu_adam_beside");
}

/// The curve is that of one thread. Several are faster by as much as at Adam, which memory bounds
/// too.
Seconds host_square_sum_seconds(double elements, int threads, const Platform& platform) {
  const Seconds alone = require(platform.host_square_sum, platform, "host_square_sum").at(elements);
  const Seconds one = cpu_adam(platform, 1).at(elements);
  const Seconds several = cpu_adam(platform, threads).at(elements);
  return several < one ? alone * several / one : alone;
}

Seconds grad_d2h_seconds(const Operation& op, const Platform& platform) {
  const auto bytes = static_cast<double>(op.bytes);
  const Seconds written = require(platform.d2h, platform, "d2h").at(bytes);
  if (!op.accumulate) return written;
  if (!platform.d2h_add.points.empty()) return platform.d2h_add.at(bytes);
  return written + require(platform.h2d, platform, "h2d").at(bytes);
}

/// Ranks share a node's NVMe, and reads take from writes: without that figure every prediction
/// would be too good.
Seconds nvme_seconds(const Operation& op, const Curve& curve, const Platform& platform,
                     const char* key) {
  if (!platform.shares(op.lane)) {
    throw InputError(
        fmt::format("platform {}:shared", platform.name),
        fmt::format("neither it nor interference says what lanes {} and {} take from each other",
                    lane_name(Lane::NvmeRead), lane_name(Lane::NvmeWrite)),
        "Calibrate the machine again, or add the resource by hand (platforms/README.md).");
  }
  return require(curve, platform, key).at(static_cast<double>(op.bytes));
}

/// Returns the elements on AdamW's curve that move as many bytes. Curves are measured with
/// gradients in the parameters' type and moments in fp32: in bf16 an element moves 26 bytes (master
/// and two moments read and written, gradient read), 2 more if the gradient was added up in fp32,
/// 8 fewer if the moments are bf16, and 12 fewer if they are int8, but for their scales.
double adam_elements(const Operation& op, const Program& program) {
  constexpr double kBytes = 26;
  const Bytes wider = size_of(program.gradient_dtype) - size_of(program.dtype);
  constexpr std::int64_t kWhole = kMomentBlock;
  const Bytes narrower =  // moments are read and written
      2 * (moment_bytes(AdamState::Float32, kWhole) - moment_bytes(program.adam_state, kWhole));
  const double bytes =
      kBytes + static_cast<double>(wider) - static_cast<double>(narrower) / double{kWhole};
  return static_cast<double>(op.elements) * bytes / kBytes;
}

/// Memory bounds an addition as it does AdamW, so it takes as long as an AdamW that moves as many
/// bytes (see adam_elements): a gradient in the parameters' type and a sum in fp32, which is read
/// too where the gradient is added.
double grad_add_elements(std::int64_t elements, bool adds, const Program& program) {
  constexpr double kAdamBytes = 26;
  const Bytes sum = size_of(program.gradient_dtype) * (adds ? 2 : 1);
  return static_cast<double>(elements * (size_of(program.dtype) + sum)) / kAdamBytes;
}

/// Time of an all-to-all of one node. A rank sends and gets as many bytes as in an all-gather of a
/// buffer of that size, all but its own part, so a platform without a curve takes that one's.
Seconds exchange_in_node(double bytes, int ranks, const Platform& platform) {
  const bool is_known = find_curve(kAllToAll, ranks, platform) != nullptr;
  return collective_seconds(is_known ? kAllToAll : kAllGather, bytes, ranks, platform);
}

/// Over nodes, each rank's parts for other nodes go through the NICs, which the ranks of a node
/// share, while those for its own node go inside.
Seconds exchange_seconds(double bytes, int world_size, const Platform& platform) {
  const int devices = platform.num_devices;
  const bool is_known = find_curve(kAllToAll, world_size, platform) != nullptr;
  if (is_known || world_size <= devices || !platform.holds(world_size)) {
    return exchange_in_node(bytes, world_size, platform);
  }
  const double within = bytes * devices / world_size;
  const Seconds inside = devices > 1 ? exchange_in_node(within, devices, platform) : 0;
  const Network& network = *platform.network;
  const double sent = devices * (bytes - within);
  const Seconds between = between_nodes(sent, devices, network);
  const int hops = world_size / devices - 1;
  return std::max(inside, between) + hops * network.latency;
}

/// Every rank sends its peer on another node as much as it gets from its ward. The checksum of what
/// it sends is not counted.
Seconds peer_copy_seconds(const Operation& op, const Program& program, const Platform& platform) {
  if (platform.num_nodes(program.world_size) < 2) {
    throw InputError(
        fmt::format("platform {}:network", platform.name),
        fmt::format("{} ranks have no peers on another node, which copies of "
                    "snapshots need",
                    program.world_size),
        "Use the ranks of several nodes and a platform with their network, or one copy "
        "(snapshot_copies 1).");
  }
  const int ranks = platform.ranks_per_node(program.world_size);
  const Network& network = *platform.network;
  return network.latency + between_nodes(ranks * static_cast<double>(op.bytes), ranks, network);
}

/// Time of a reduction over all ranks. What was measured ends in a copy of the rank's part. A
/// kernel that widens the gradient or adds it to a sum takes its place, and moves more bytes.
Seconds reduce_seconds(const Operation& op, const Program& program, const Platform& platform) {
  const Seconds copied =
      collective_seconds(op.all_reduce ? kAllReduce : kReduceScatter, static_cast<double>(op.bytes),
                         program.world_size, platform);
  const Seconds added = filling_seconds(op, program, platform);
  const Curve* copy = find_curve(kReduceScatter, 1, platform);
  if (added == 0 || copy == nullptr) return copied + added;
  const auto bytes = static_cast<double>(op.stored * size_of(program.dtype));
  return copied + std::max(0.0, added - copy->at(bytes));
}

/// Stores or adds a gradient on the device that no other rank has a part of.
Seconds own_gradient_seconds(const Operation& op, const Program& program,
                             const Platform& platform) {
  if (const Seconds added = filling_seconds(op, program, platform); added > 0) return added;
  if (const Curve* curve = find_curve(kReduceScatter, 1, platform)) {
    return curve->at(static_cast<double>(op.bytes));
  }
  const std::int64_t elements = op.bytes / size_of(program.dtype);
  return require(platform.device_adam, platform, "device_adam")
      .at(grad_add_elements(elements, op.accumulate, program));
}

Seconds square_sum_seconds(const Operation& op, const Program& program, const Platform& platform) {
  const auto elements = static_cast<double>(op.elements);
  if (op.lane == Lane::CpuAdam) {
    return host_square_sum_seconds(elements, program.cpu_adam_threads, platform);
  }
  return require(platform.device_square_sum, platform, "device_square_sum").at(elements);
}

/// Returns the least time in which the CPU's arithmetic updates moments in int8. Memory bounds
/// other updates. One thread of an AMD EPYC updated 183 million elements a second, which
/// calibrations do not measure.
Seconds int8_update_seconds(const Operation& op, const Program& program) {
  constexpr Seconds kOneThread = 5.5e-9;
  if (program.adam_state != AdamState::Int8) return 0;
  return kOneThread * static_cast<double>(op.elements) / program.cpu_adam_threads;
}

/// Returns the time of an update, or of the expected share of updates that are done again.
Seconds adam_seconds(const Operation& op, const Program& program, const Platform& platform) {
  const double elements = adam_elements(op, program);
  if (op.lane != Lane::CpuAdam) {
    return require(platform.device_adam, platform, "device_adam").at(elements);
  }
  const int threads = program.cpu_adam_threads;
  const bool is_rollback = op.kind == OpKind::AdamRollback;
  const Curve& curve =
      op.beside || is_rollback ? cpu_adam_beside(platform, threads) : cpu_adam(platform, threads);
  const Seconds seconds = std::max(curve.at(elements), int8_update_seconds(op, program));
  return is_rollback ? program.clipped_share * seconds : seconds;
}

Seconds seconds_where_it_runs(const Operation& op, const Program& program,
                              const Platform& platform) {
  const auto bytes = static_cast<double>(op.bytes);
  switch (op.kind) {
    case OpKind::Forward:
    case OpKind::Recompute:
    case OpKind::Backward:
      return sustained_seconds(op, program, platform);
    case OpKind::OutputD2H:
    case OpKind::PeerStore:
    case OpKind::StateD2H:
      return require(platform.d2h, platform, "d2h").at(bytes);
    case OpKind::Fetch:
    case OpKind::OutputH2D:
    case OpKind::ParamH2D:
    case OpKind::GradH2D:
      return require(platform.h2d, platform, "h2d").at(bytes);
    case OpKind::GradAdd:
      return require(platform.device_adam, platform, "device_adam")
          .at(grad_add_elements(op.elements, op.accumulate, program));
    case OpKind::GradD2H:
      return grad_d2h_seconds(op, platform);
    case OpKind::Gather:
    case OpKind::Norm:
    case OpKind::Fence:
    case OpKind::Loss:
      return collective_seconds(kAllGather, bytes, program.world_size, platform);
    case OpKind::Dispatch:
    case OpKind::Combine:
      return exchange_seconds(bytes, program.world_size, platform);
    case OpKind::ActivationGather:
      return collective_seconds(kAllGather, bytes, program.world_size, platform);
    case OpKind::ActivationReduce:
      return collective_seconds(kReduceScatter, bytes, program.world_size, platform);
    case OpKind::Reduce:
      return op.own ? own_gradient_seconds(op, program, platform)
                    : reduce_seconds(op, program, platform);
    case OpKind::ParamRead:
      return nvme_seconds(op, platform.file_read, platform, "file_read");
    case OpKind::StateRead:
      if (op.lane == Lane::H2D) return require(platform.h2d, platform, "h2d").at(bytes);
      return nvme_seconds(op, platform.file_read, platform, "file_read");
    case OpKind::GradWrite:
      return nvme_seconds(op, platform.file_write, platform, "file_write");
    case OpKind::StateWrite:
      if (op.lane == Lane::D2H) return require(platform.d2h, platform, "d2h").at(bytes);
      return nvme_seconds(op, platform.file_write, platform, "file_write");
    case OpKind::SquareSum:
      return square_sum_seconds(op, program, platform);
    case OpKind::AdamRollback:
    case OpKind::Adam:
      return adam_seconds(op, program, platform);
    case OpKind::PeerCopy:
    case OpKind::PeerMark:
      return peer_copy_seconds(op, program, platform);
    case OpKind::Mark:
      return 0;
  }
  throw Error("costs: an operation of an unknown kind");
}

}  // namespace

Seconds solo_seconds(const Operation& op, const Program& program, const Platform& platform) {
  return seconds_where_it_runs(op, program, platform) / program.steps_for_each(op.kind);
}

std::vector<Seconds> solo_seconds(const Program& program, const Platform& platform) {
  std::vector<Seconds> seconds;
  seconds.reserve(program.operations.size());
  for (const Operation& op : program.operations) {
    seconds.push_back(solo_seconds(op, program, platform));
  }
  return seconds;
}

Seconds filling_seconds(const Operation& op, const Program& program, const Platform& platform) {
  if (op.lane != Lane::Collective || platform.device_adam.points.empty()) return 0;
  if (op.kind == OpKind::GradAdd) {
    return platform.device_adam.at(grad_add_elements(op.elements, op.accumulate, program));
  }
  const bool is_copy = program.gradient_dtype == program.dtype && !op.accumulate;
  if (op.kind != OpKind::Reduce || op.stored == 0 || is_copy) return 0;
  return platform.device_adam.at(grad_add_elements(op.stored, op.accumulate, program));
}

double cpu_adam_share(const Platform& platform, int num_ranks, int threads) {
  return std::min(1.0, cpu_adam_speed(platform, threads, part_of_cores(platform, num_ranks)));
}

double cpu_adam_use(const Platform& platform, int threads) {
  const int described = platform.shared_adam_threads;
  return cpu_adam_speed(platform, threads,
                        described > 0 ? described : part_of_cores(platform, platform.num_devices));
}

double most_cpu_adam_use(const Platform& platform) {
  double most = 1;
  for (const auto& [threads, curve] : platform.cpu_adam) {
    most = std::max(most, cpu_adam_use(platform, threads));
  }
  return most;
}

std::vector<SharedResource> shared_with(const Platform& platform, int adam_threads) {
  std::vector<SharedResource> shared = platform.shared;
  const double adam = cpu_adam_use(platform, adam_threads);
  for (SharedResource& resource : shared) {
    const auto use = resource.use.find(Lane::CpuAdam);
    if (use != resource.use.end()) use->second *= adam;
  }
  return shared;
}

Seconds sustained_seconds(const Operation& op, const Program& program, const Platform& platform) {
  const double here = platform.matmul_flops_per_second;
  const double there = program.matmul_flops_per_second;
  return here > 0 && there > 0 ? op.compute_seconds * there / here : op.compute_seconds;
}

}  // namespace athanor
