// SPDX-License-Identifier: Apache-2.0
#include "calibrate/kernels/kernel_costs.hpp"

#include "calibrate/bench/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace athanor {
namespace {

constexpr double kLeastShare = 0.01;

using KernelKey = std::pair<KernelClass, std::string>;

struct KernelSum {
  double count = 0, flops = 0, bytes = 0;
  std::map<std::size_t, Seconds> seconds;  ///< by index of the phase's execution
};

/// Activities of an operator that carry its FLOPs and its bytes.
struct Carriers {
  const TracedActivity* flops = nullptr;
  const TracedActivity* bytes = nullptr;
};

void take_longer(const TracedActivity*& longest, const TracedActivity& activity) {
  if (longest == nullptr || activity.seconds() > longest->seconds()) longest = &activity;
}

class PhaseKernels {
 public:
  PhaseKernels(const KernelTrace& trace, UnitPhase phase) : trace_(trace), phase_(phase) {
    for (const TracedActivity& activity : trace.activities) {
      if (is_wanted(activity)) add(activity);
    }
    for (const auto& [origin, carriers] : carriers_) {
      const LaunchOrigin& launched = trace_.origins[origin - 1];
      if (carriers.flops != nullptr) sums_[key_of(*carriers.flops)].flops += launched.flops;
      sums_[key_of(*carriers.bytes)].bytes += launched.bytes;
    }
  }

  [[nodiscard]] std::vector<KernelCost> costs() const {
    const auto executions = static_cast<double>(
        std::count_if(trace_.phases.begin(), trace_.phases.end(),
                      [&](const TracedPhase& traced) { return traced.phase == phase_; }));
    std::vector<KernelCost> costs;
    for (const auto& [key, sum] : sums_) {
      costs.push_back({key.second, key.first, sum.count / executions, median_seconds(sum),
                       sum.flops / executions, sum.bytes / executions});
    }
    return costs;
  }

 private:
  [[nodiscard]] bool is_wanted(const TracedActivity& activity) const {
    const LaunchOrigin* const origin = trace_.origin_of(activity);
    return origin != nullptr && is_on_device(activity.kind) &&
           trace_.phases[origin->phase].phase == phase_;
  }

  static KernelKey key_of(const TracedActivity& activity) {
    return {kernel_class(activity.name), short_kernel_name(activity.name)};
  }

  void add(const TracedActivity& activity) {
    const KernelKey key = key_of(activity);
    KernelSum& sum = sums_[key];
    sum.count += 1;
    sum.seconds[trace_.origin_of(activity)->phase] += activity.seconds();
    Carriers& carriers = carriers_[activity.origin];
    take_longer(carriers.bytes, activity);
    if (is_product(key.first)) take_longer(carriers.flops, activity);
  }

  /// Takes the median over executions. One that did not launch the kernel counts as 0 s.
  [[nodiscard]] Seconds median_seconds(const KernelSum& sum) const {
    Samples samples;
    for (std::size_t i = 0; i < trace_.phases.size(); ++i) {
      if (trace_.phases[i].phase != phase_) continue;
      const auto found = sum.seconds.find(i);
      samples.add(found == sum.seconds.end() ? 0 : found->second);
    }
    return samples.median();
  }

  const KernelTrace& trace_;
  UnitPhase phase_;
  std::map<KernelKey, KernelSum> sums_;
  std::map<std::uint64_t, Carriers> carriers_;  ///< by origin
};

void add_to(KernelCost& total, const KernelCost& kernel) {
  total.count += kernel.count;
  total.seconds += kernel.seconds;
  total.flops += kernel.flops;
  total.bytes += kernel.bytes;
}

/// Sums kernels of little time into one line per class.
std::vector<KernelCost> with_few_together(const std::vector<KernelCost>& kernels) {
  Seconds all = 0;
  for (const KernelCost& kernel : kernels) all += kernel.seconds;
  std::vector<KernelCost> kept;
  std::map<KernelClass, KernelCost> few;
  for (const KernelCost& kernel : kernels) {
    if (kernel.seconds >= kLeastShare * all) {
      kept.push_back(kernel);
    } else {
      KernelCost& total = few[kernel.kind];
      total.name = kFewKernels;
      total.kind = kernel.kind;
      add_to(total, kernel);
    }
  }
  for (const auto& [kind, total] : few) kept.push_back(total);
  return kept;
}

}  // namespace

std::string take_kernels(std::vector<UnitCost>& costs, std::vector<UnitCost> traced) {
  std::string text;
  const auto take = [&](UnitPhase phase, PhaseCost UnitCost::* member) {
    Seconds without = 0, with = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      without += (costs[i].*member).seconds;
      with += (traced[i].*member).seconds;
      (costs[i].*member).kernels = std::move((traced[i].*member).kernels);
    }
    text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", unit_phase_name(phase),
                        without > 0 ? with / without : 1.0);
  };
  take(UnitPhase::ForwardKeep, &UnitCost::forward_keep);
  take(UnitPhase::ForwardDiscard, &UnitCost::forward_discard);
  take(UnitPhase::Recompute, &UnitCost::recompute);
  take(UnitPhase::Backward, &UnitCost::backward);
  return "under the trace phases took times as long: " + text;
}

std::vector<KernelCost> kernel_costs(const KernelTrace& trace, UnitPhase phase) {
  std::vector<KernelCost> kernels = with_few_together(PhaseKernels(trace, phase).costs());
  std::sort(kernels.begin(), kernels.end(), [](const KernelCost& a, const KernelCost& b) {
    return std::tie(b.seconds, a.kind, a.name) < std::tie(a.seconds, b.kind, b.name);
  });
  return kernels;
}

}  // namespace athanor
