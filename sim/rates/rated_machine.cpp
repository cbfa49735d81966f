// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/rated_machine.hpp"

#include "sim/cost/costs.hpp"
#include "sim/rates/measure_rates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace athanor {
namespace {

/// Weighted mean of logarithms of factors.
class MeanFactor {
 public:
  void add(double factor, double weight) {
    logarithms_ += weight * std::log(factor);
    weight_ += weight;
  }
  [[nodiscard]] std::optional<double> get() const {
    if (weight_ <= 0) return std::nullopt;
    return std::exp(logarithms_ / weight_);
  }

 private:
  double logarithms_ = 0, weight_ = 0;
};

/// A curve of a platform, or several that are scaled together.
enum class Part {
  H2D,
  D2H,
  D2HAdd,
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Adam,
  AdamBeside,
  HostSquareSum,
  DeviceAdam,
  DeviceSquareSum,
  FileRead,
  FileWrite,
};

/// Returns the curve that tells the cost of `op`; nothing where no curve's own rate is measured.
std::optional<Part> part_of(const Operation& op) {
  const bool on_host = op.lane == Lane::CpuAdam;
  switch (op.kind) {
    case OpKind::Fetch:
    case OpKind::OutputH2D:
    case OpKind::ParamH2D:
    case OpKind::GradH2D:
      return Part::H2D;
    case OpKind::OutputD2H:
    case OpKind::PeerStore:
    case OpKind::StateD2H:
      return Part::D2H;
    case OpKind::GradD2H:
      return op.accumulate ? Part::D2HAdd : Part::D2H;
    case OpKind::Gather:
    case OpKind::ActivationGather:
      return Part::AllGather;
    case OpKind::ActivationReduce:
      return Part::ReduceScatter;
    case OpKind::Reduce:
      return op.all_reduce ? Part::AllReduce : Part::ReduceScatter;
    case OpKind::Dispatch:
    case OpKind::Combine:
      return Part::AllToAll;
    case OpKind::ParamRead:
      return Part::FileRead;
    case OpKind::StateRead:
      return op.lane == Lane::H2D ? Part::H2D : Part::FileRead;
    case OpKind::GradWrite:
      return Part::FileWrite;
    case OpKind::StateWrite:
      return op.lane == Lane::D2H ? Part::D2H : Part::FileWrite;
    case OpKind::SquareSum:
      return on_host ? Part::HostSquareSum : Part::DeviceSquareSum;
    case OpKind::Adam:
      if (!on_host) return Part::DeviceAdam;
      return op.beside ? Part::AdamBeside : Part::Adam;
    default:
      return std::nullopt;
  }
}

/// Factor of a curve, and the size up to which it holds.
struct PartFactor {
  double factor = 1;
  double largest = 0;  ///< size of an operation that was measured
};
using PartFactors = std::map<Part, PartFactor>;

/// Multiplies the curve up to some times the largest measured size. What small operations take
/// longer is their start: larger ones take no more than that longer.
void scale(Curve& curve, const PartFactor& part) {
  constexpr double kReach = 16;  // as chunks of a plan may be larger than another's
  if (curve.points.empty() || part.factor == 1) return;
  const Curve before = curve;
  const double reach = kReach * part.largest;
  const Seconds more = (part.factor - 1) * before.at(reach);
  if (reach > curve.points.back().size) curve.points.push_back({2 * reach, 0, 0});
  const auto after = std::ranges::upper_bound(curve.points, reach, {}, &Curve::Point::size);
  const bool is_new = after == curve.points.begin() || std::prev(after)->size < reach;
  if (is_new) curve.points.insert(after, {reach, 0, 0});
  for (Curve::Point& point : curve.points) {
    const Seconds calibrated = before.at(point.size);
    point.seconds = point.size <= reach ? part.factor * calibrated : calibrated + more;
    point.spread *= part.factor;
  }
}

/// Gives `to` the factor of the first of `like` that has one, unless it has one itself.
void borrow(PartFactors& factors, Part to, std::initializer_list<Part> like) {
  for (const Part other : like) {
    const auto found = factors.find(other);
    if (found == factors.end()) continue;
    factors.try_emplace(to, found->second);
    return;
  }
}

/// Platforms may leave these curves out, because they follow from others as they were calibrated.
/// They have to be written down before those others change.
void write_down_derived_curves(Platform& platform, const PartFactors& factors) {
  if (factors.contains(Part::D2HAdd) && platform.d2h_add.points.empty()) {
    platform.d2h_add = platform.d2h;
    for (Curve::Point& point : platform.d2h_add.points) {
      point.seconds += platform.h2d.at(point.size);
    }
  }
  if (factors.contains(Part::AllToAll) && platform.all_to_all.empty()) {
    platform.all_to_all = platform.all_gather;
  }
  if (factors.contains(Part::AdamBeside) && platform.cpu_adam_beside.empty()) {
    platform.cpu_adam_beside = platform.cpu_adam;
  }
}

void scale_curves(Platform& platform, const PartFactors& factors) {
  using Curves = std::vector<CollectiveCurve> Platform::*;
  constexpr std::array<std::pair<Part, Curve Platform::*>, 8> kCurves{
      {{Part::H2D, &Platform::h2d},
       {Part::D2H, &Platform::d2h},
       {Part::D2HAdd, &Platform::d2h_add},
       {Part::HostSquareSum, &Platform::host_square_sum},
       {Part::DeviceAdam, &Platform::device_adam},
       {Part::DeviceSquareSum, &Platform::device_square_sum},
       {Part::FileRead, &Platform::file_read},
       {Part::FileWrite, &Platform::file_write}}};
  constexpr std::array<std::pair<Part, Curves>, 4> kCollectives{
      {{Part::AllGather, &Platform::all_gather},
       {Part::ReduceScatter, &Platform::reduce_scatter},
       {Part::AllReduce, &Platform::all_reduce},
       {Part::AllToAll, &Platform::all_to_all}}};
  constexpr std::array<std::pair<Part, std::map<int, Curve> Platform::*>, 2> kUpdates{
      {{Part::Adam, &Platform::cpu_adam}, {Part::AdamBeside, &Platform::cpu_adam_beside}}};
  const auto factor_of = [&](Part part) {
    const auto found = factors.find(part);
    return found == factors.end() ? PartFactor{} : found->second;
  };
  for (const auto& [part, curve] : kCurves) scale(platform.*curve, factor_of(part));
  for (const auto& [part, curves] : kCollectives) {
    for (CollectiveCurve& collective : platform.*curves) scale(collective.curve, factor_of(part));
  }
  for (const auto& [part, curves] : kUpdates) {
    for (auto& [threads, curve] : platform.*curves) scale(curve, factor_of(part));
  }
}

PartFactors part_factors(const Program& program, const std::vector<Seconds>& seconds,
                         const RateFactors& factors) {
  std::map<Part, MeanFactor> means;
  std::map<Part, double> largest;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    const std::optional<Part> part = part_of(op);
    const auto factor = factors.operations.find(rate_key(op, program));
    if (!part || factor == factors.operations.end()) continue;
    means[*part].add(factor->second, seconds[i]);
    const auto size = static_cast<double>(op.elements > 0 ? op.elements : op.bytes);
    largest[*part] = std::max(largest[*part], size);
  }
  PartFactors result;
  for (const auto& [part, mean] : means) {
    if (const auto factor = mean.get()) result[part] = {*factor, largest[part]};
  }
  borrow(result, Part::Adam, {Part::AdamBeside, Part::HostSquareSum});
  borrow(result, Part::AdamBeside, {Part::Adam});
  borrow(result, Part::HostSquareSum, {Part::Adam});
  return result;
}

/// Returns the rate of a phase of a class, of kUnitPhases.
RateKey key_of(PhaseCost UnitCost::* phase, const std::string& unit_class) {
  RateKey key{.kind = OpKind::Forward, .lane = Lane::Compute, .unit_class = unit_class};
  key.variant = phase == &UnitCost::forward_keep;
  if (phase == &UnitCost::recompute) key.kind = OpKind::Recompute;
  if (phase == &UnitCost::backward) key.kind = OpKind::Backward;
  return key;
}

void scale(PhaseCost& phase, double factor, double launch) {
  for (Seconds PhaseCost::* time :
       {&PhaseCost::seconds, &PhaseCost::spread, &PhaseCost::unthrottled_seconds}) {
    phase.*time *= factor;
  }
  phase.issue_seconds *= launch;
  if (!phase.replay) return;
  phase.replay->seconds *= factor;
  phase.replay->issue_seconds *= launch;
}

void scale_phases(Profile& profile, const Program& program, const std::vector<Seconds>& seconds,
                  const RateFactors& factors) {
  std::map<std::string, MeanFactor> of_class;
  MeanFactor of_all;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const RateKey key = rate_key(program.operations[i], program);
    const auto factor = factors.operations.find(key);
    if (key.unit_class.empty() || factor == factors.operations.end()) continue;
    of_class[key.unit_class].add(factor->second, seconds[i]);
    of_all.add(factor->second, seconds[i]);
  }
  for (UnitCost& cost : profile.costs) {
    const double others = of_class[cost.unit_class].get().value_or(of_all.get().value_or(1));
    for (std::size_t i = 0; i < kUnitPhases.size(); ++i) {
      const auto own = factors.operations.find(key_of(kUnitPhases[i], cost.unit_class));
      const double factor = own == factors.operations.end() ? others : own->second;
      for (PhaseCost* const phase : costs_of_phase(cost, i)) scale(*phase, factor, factors.launch);
    }
  }
}

}  // namespace

RatedMachine rated_machine(const Platform& platform, const Profile& profile, const Program& program,
                           const RateFactors& factors) {
  const std::vector<Seconds> seconds = solo_seconds(program, platform);
  RatedMachine rated{platform, profile};
  rated.platform.pooled.clear();  // its rates are the run's now
  const PartFactors parts = part_factors(program, seconds, factors);
  write_down_derived_curves(rated.platform, parts);
  scale_curves(rated.platform, parts);
  // The launches of phases follow from the profile's own, times the ratio of these two.
  for (auto& [lane, issue] : rated.platform.issue) issue *= factors.launch;
  rated.profile.launch_seconds *= factors.launch;
  scale_phases(rated.profile, program, seconds, factors);
  return rated;
}

}  // namespace athanor
