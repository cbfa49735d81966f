// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/scaling.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace athanor {
namespace {

/// Elements per second of AdamW on the device, which follow the bandwidth of device memory.
double memory_rate(const Platform& platform) {
  if (!platform.device_adam.points.empty()) {
    const Curve::Point& largest = platform.device_adam.points.back();
    if (largest.size > 0 && largest.seconds > 0) return largest.size / largest.seconds;
  }
  throw InputError(fmt::format("platform {}:device_adam", platform.name),
                   "has no time to take the rate of device memory from",
                   "Calibrate the machine again, or give the figure from its data sheet.");
}

double matrix_rate(const Platform& platform) {
  if (platform.matmul_flops_per_second > 0) return platform.matmul_flops_per_second;
  throw InputError(fmt::format("platform {}:matmul_flops_per_second", platform.name),
                   "is not above 0",
                   "Calibrate the machine again, or give the figure from its data sheet.");
}

/// Returns `platform` with the matrix rate of the profile's own GPU, where the profile has it.
Platform as_profiled(Platform platform, const Profile& profile) {
  if (profile.matmul_flops_per_second > 0) {
    platform.matmul_flops_per_second = profile.matmul_flops_per_second;
  }
  return platform;
}

double forward_flops(const Profile& profile, const UnitCost& cost) {
  const auto& units = profile.architecture.units;
  const auto unit = std::ranges::find(units, cost.unit_class, &Unit::unit_class);
  if (unit == units.end()) return 0;
  const auto sequence = static_cast<double>(profile.sequence_length);
  return static_cast<double>(cost.micro_batch) * sequence *
         (unit->forward_flops_per_token + unit->forward_flops_per_token_per_context * sequence);
}

/// Returns the share of a phase's kernels that are products; nothing if none were traced.
std::optional<double> traced_product_share(const PhaseCost& phase) {
  Seconds all = 0, products = 0;
  for (const KernelCost& kernel : phase.kernels) {
    all += kernel.seconds;
    if (is_product(kernel.kind)) products += kernel.seconds;
  }
  if (all <= 0) return std::nullopt;
  return products / all;
}

void scale_times(PhaseCost& phase, double factor) {
  phase.seconds *= factor;
  phase.spread *= factor;
  phase.unthrottled_seconds = phase.watts = 0;  // nobody has measured them there
  if (phase.replay) phase.replay->seconds *= factor;
}

/// Scales the phases of one unit.
class PhaseScaler {
 public:
  PhaseScaler(const ScalingRatios& ratios, ScalingRule rule) : ratios_(ratios), rule_(rule) {}

  /// `product_seconds`: the time of the phase's matrix products by themselves, from their FLOPs.
  /// Traced kernels are preferred to it.
  void scale(PhaseCost& phase, Seconds product_seconds) const {
    const double factor =
        std::lerp(ratios_.memory, ratios_.products, product_share(phase, product_seconds));
    scale_times(phase, factor);
    for (KernelCost& kernel : phase.kernels) {
      kernel.seconds *= follows_products(kernel) ? ratios_.products : ratios_.memory;
    }
  }

 private:
  [[nodiscard]] bool follows_products(const KernelCost& kernel) const {
    return rule_ == ScalingRule::Products ||
           (rule_ == ScalingRule::Roofline && is_product(kernel.kind));
  }

  [[nodiscard]] double product_share(const PhaseCost& phase, Seconds products) const {
    switch (rule_) {
      case ScalingRule::Products:
        return 1;
      case ScalingRule::Memory:
        return 0;
      case ScalingRule::Roofline:
        break;
    }
    if (const auto share = traced_product_share(phase)) return *share;
    return products < phase.seconds ? products / phase.seconds : 1;
  }

  ScalingRatios ratios_;
  ScalingRule rule_;
};

/// Scales `phase`, whose kernels nobody has traced, by as much as another phase of the unit.
void scale_like(PhaseCost& phase, const PhaseCost& before, const PhaseCost& after) {
  scale_times(phase, before.seconds > 0 ? after.seconds / before.seconds : 1);
}

/// Stages take as many times longer as the whole phase does: nobody has said which of them has the
/// products.
void scale_stages(StagedPhase& phase, const PhaseCost& before, const PhaseCost& after) {
  for (PhaseCost& stage : phase.stages) scale_like(stage, before, after);
}

void scale_unit(UnitCost& cost, Seconds forward_products, const PhaseScaler& scaler) {
  const UnitCost before = cost;
  const Seconds backward_products = 2 * forward_products;
  const Seconds done_before = std::max(0.0, backward_products - cost.backward.seconds);
  scaler.scale(cost.forward_keep, forward_products + done_before);
  scaler.scale(cost.recompute, forward_products + done_before);
  scaler.scale(cost.forward_discard, forward_products);
  scaler.scale(cost.backward, backward_products);
  if (cost.nondeterministic_backward) {
    scale_like(*cost.nondeterministic_backward, before.backward, cost.backward);
  }
  for (StagedCost& staged : cost.staged) {
    for (std::size_t i = 0; i < kUnitPhases.size(); ++i) {
      scale_stages(staged.*kStagedPhases[i], before.*kUnitPhases[i], cost.*kUnitPhases[i]);
    }
    if (staged.nondeterministic_backward) {
      scale_stages(*staged.nondeterministic_backward, before.backward, cost.backward);
    }
  }
}

}  // namespace

ScalingRatios scaling_ratios(const Platform& from, const Platform& to) {
  return {.products = matrix_rate(from) / matrix_rate(to),
          .memory = memory_rate(from) / memory_rate(to)};
}

ScalingRatios scaling_ratios(const Profile& profile, const Platform& from, const Platform& to) {
  return scaling_ratios(as_profiled(from, profile), to);
}

Platform with_host_update_slowdown(Platform platform, double factor) {
  const auto scale = [factor](Curve& curve) {
    for (Curve::Point& point : curve.points) point.seconds *= factor;
  };
  for (auto& [threads, curve] : platform.cpu_adam) scale(curve);
  for (auto& [threads, curve] : platform.cpu_adam_beside) scale(curve);
  scale(platform.host_square_sum);
  return platform;
}

Profile scale_profile(const Profile& profile, const Platform& from, const Platform& to,
                      ScalingRule rule) {
  if (profile.device != from.device) {
    throw InputError(
        fmt::format("platform {}:device", from.name),
        fmt::format("'{}', but the profile was made on '{}'", from.device, profile.device),
        "Scale from the machine that the profile was measured on.");
  }
  const Platform measured_on = as_profiled(from, profile);
  const ScalingRatios ratios = scaling_ratios(measured_on, to);
  const PhaseScaler scaler(ratios, rule);
  Profile scaled = profile;
  for (UnitCost& cost : scaled.costs) {
    scale_unit(cost, forward_flops(profile, cost) / matrix_rate(measured_on), scaler);
  }
  scaled.device = to.device;
  scaled.matmul_flops_per_second = matrix_rate(to);
  scaled.provenance.source = Source::Scaled;
  scaled.provenance.notes = fmt::format(
      "scaled from {} ({}) to {} ({}): matrix products take {:.4g} times as long, the "
      "rest {:.4g} times, launches on the host as long as there; {}",
      from.name, from.device, to.name, to.device, ratios.products, ratios.memory,
      profile.provenance.notes);
  return scaled;
}

}  // namespace athanor
