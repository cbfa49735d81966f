// SPDX-License-Identifier: Apache-2.0
#include "sim/model/costs.hpp"

#include "sim/model/errors.hpp"

#include <fmt/format.h>

#include <iterator>

namespace athanor {
namespace {

/// `curve` itself, which is part of `platform` or empty.
const Curve& require(const Curve& curve, const Platform& platform, const std::string& key) {
  if (!curve.points.empty()) return curve;  // NOLINT(bugprone-return-const-ref-from-parameter)
  throw InputError(fmt::format("platform {}:{}", platform.name, key), "the curve is empty",
                   "Calibrate the machine again, or give the figure from its data sheet.");
}

const Curve& collective(const std::vector<CollectiveCurve>& curves, int world_size,
                        const Platform& platform, const char* key) {
  std::string known;
  for (const CollectiveCurve& candidate : curves) {
    if (candidate.world_size == world_size) return require(candidate.curve, platform, key);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate.world_size);
  }
  throw InputError(fmt::format("platform {}:{}", platform.name, key),
                   fmt::format("no curve for {} ranks (there is: {})", world_size,
                               known.empty() ? "none" : known),
                   "Calibrate with that many ranks (--ranks), or use a number of ranks listed.");
}

/// The curve of the largest measured thread count that is not above `threads`, else the smallest.
const Curve& cpu_adam(const Platform& platform, int threads) {
  static const Curve kNone;
  if (platform.cpu_adam.empty()) return require(kNone, platform, "cpu_adam");
  auto above = platform.cpu_adam.upper_bound(threads);
  if (above != platform.cpu_adam.begin()) above = std::prev(above);
  return require(above->second, platform, "cpu_adam");
}

}  // namespace

Seconds solo_seconds(const Operation& op, const Program& program, const Platform& platform) {
  const auto bytes = static_cast<double>(op.bytes);
  const auto elements = static_cast<double>(op.elements);
  const bool on_device = op.lane == Lane::Compute;
  switch (op.kind) {
    case OpKind::Forward:
    case OpKind::Recompute:
    case OpKind::Backward:
      return op.compute_seconds;
    case OpKind::Fetch:
    case OpKind::ParamH2D:
      return require(platform.h2d, platform, "h2d").at(bytes);
    case OpKind::GradD2H:
      return require(platform.d2h, platform, "d2h").at(bytes);
    case OpKind::Gather:
    case OpKind::Norm:
    case OpKind::Loss:
      return collective(platform.all_gather, program.world_size, platform, "all_gather").at(bytes);
    case OpKind::Reduce:
      return (op.all_reduce
                  ? collective(platform.all_reduce, program.world_size, platform, "all_reduce")
                  : collective(platform.reduce_scatter, program.world_size, platform,
                               "reduce_scatter"))
          .at(bytes);
    case OpKind::SquareSum:
      return (on_device ? require(platform.device_square_sum, platform, "device_square_sum")
                        : require(platform.host_square_sum, platform, "host_square_sum"))
          .at(elements);
    case OpKind::Adam:
      return (on_device ? require(platform.device_adam, platform, "device_adam")
                        : cpu_adam(platform, program.cpu_adam_threads))
          .at(elements);
  }
  throw Error("costs: an operation of an unknown kind");
}

std::vector<Seconds> solo_seconds(const Program& program, const Platform& platform) {
  std::vector<Seconds> seconds;
  seconds.reserve(program.operations.size());
  for (const Operation& op : program.operations) {
    seconds.push_back(solo_seconds(op, program, platform));
  }
  return seconds;
}

std::vector<Seconds> issue_seconds(const Program& program, const Platform& platform) {
  std::vector<Seconds> seconds;
  seconds.reserve(program.operations.size());
  for (const Operation& op : program.operations) {
    const auto found = platform.issue.find(op.lane);
    seconds.push_back(op.issue_seconds + (found == platform.issue.end() ? 0 : found->second));
  }
  return seconds;
}

}  // namespace athanor
