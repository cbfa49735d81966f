// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/cuda_graphs.hpp"

namespace athanor {

LaunchLoad launch_load(const Profile& profile, std::int64_t micro_batch, bool deterministic) {
  LaunchLoad load;
  const bool measured = profile.measures_graphs(micro_batch);
  for (const Unit& unit : profile.architecture.units) {
    const UnitCost& cost = profile.cost(unit.unit_class, micro_batch);
    for (const PhaseCost* phase : {&cost.forward_keep, &profile.backward(cost, deterministic)}) {
      load.device += phase->seconds;
      load.issue += phase->issue_seconds;
      if (!measured) continue;
      load.replayed_device += phase->replay->seconds;
      load.replayed_issue += phase->replay->issue_seconds;
    }
  }
  return load;
}

bool graphs_may_pay(const LaunchLoad& load) noexcept {
  constexpr double kStaysAhead = 0.5, kLeastGain = 0.01;
  if (load.replayed_device <= 0) return false;
  return load.issue > kStaysAhead * load.device ||
         load.replayed_device < (1 - kLeastGain) * load.device;
}

bool takes_graphs(const Profile& profile, const PlanRequest& request, std::int64_t micro_batch) {
  if (request.cuda_graphs != CudaGraphs::Auto) return request.cuda_graphs == CudaGraphs::On;
  return profile.measures_graphs(micro_batch) &&
         graphs_may_pay(launch_load(profile, micro_batch, request.deterministic));
}

}  // namespace athanor
