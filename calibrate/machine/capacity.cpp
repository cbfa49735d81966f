// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/capacity.hpp"

#include <algorithm>
#include <cmath>

namespace athanor {

double capacity_of(const ConcurrentRun& run) { return std::max(1.0, run.count / run.slowdown); }

double common_capacity(const std::vector<ConcurrentRun>& runs) {
  double sum_of_logs = 0;
  for (const ConcurrentRun& run : runs) {
    sum_of_logs += std::log(capacity_of(run));
  }
  return std::exp(sum_of_logs / static_cast<double>(runs.size()));
}

std::vector<ConcurrentRun> pairs_as_runs(const std::vector<PairSlowdown>& pairs,
                                         const std::vector<Lane>& lanes) {
  const auto is_wanted = [&](Lane lane) { return std::ranges::find(lanes, lane) != lanes.end(); };
  std::vector<ConcurrentRun> runs;
  for (const PairSlowdown& pair : pairs) {
    if (is_wanted(pair.first) && is_wanted(pair.second)) {
      runs.push_back({pair.first, 2, std::sqrt(pair.first_slowdown * pair.second_slowdown)});
    }
  }
  return runs;
}

std::vector<Lane> memory_lanes() { return {Lane::Collective, Lane::H2D, Lane::D2H, Lane::CpuAdam}; }

std::vector<SharedResource> fit_shared(const ConcurrentRun& compute,
                                       const std::vector<ConcurrentRun>& memory,
                                       int compute_threads) {
  SharedResource cores;
  cores.name = "cores";
  cores.capacity = compute_threads * capacity_of(compute);
  SharedResource bandwidth;
  bandwidth.name = "memory";
  bandwidth.capacity = common_capacity(memory);
  cores.use[Lane::Compute] = compute_threads;
  for (const Lane lane : memory_lanes()) {
    cores.use[lane] = 1;
    bandwidth.use[lane] = 1;
  }
  return {cores, bandwidth};
}

SharedResource fit_nvme(const std::vector<PairSlowdown>& pairs) {
  SharedResource nvme{"nvme", SharedResource::Scope::Node, 0, {}};
  nvme.use = {{Lane::NvmeRead, 1}, {Lane::NvmeWrite, 1}};
  nvme.capacity = common_capacity(pairs_as_runs(pairs, {Lane::NvmeRead, Lane::NvmeWrite}));
  return nvme;
}

}  // namespace athanor
