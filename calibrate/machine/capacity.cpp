// SPDX-License-Identifier: Apache-2.0
// From measured slowdowns to the capacities of shared resources.
#include "calibrate/machine/disturbances.hpp"

#include <algorithm>
#include <cmath>

namespace athanor {

double capacity_of(const Crowd& crowd) { return std::max(1.0, crowd.count / crowd.slowdown); }

double common_capacity(const std::vector<Crowd>& crowds) {
  double sum_of_logs = 0;
  for (const Crowd& crowd : crowds) {
    sum_of_logs += std::log(capacity_of(crowd));
  }
  return std::exp(sum_of_logs / static_cast<double>(crowds.size()));
}

std::vector<Crowd> crowds_of_two(const std::vector<Disturbance>& disturbances,
                                 const std::vector<Lane>& lanes) {
  const auto find = [&](const std::string& name) {
    return std::find_if(lanes.begin(), lanes.end(),
                        [&](Lane lane) { return name == lane_name(lane); });
  };
  std::vector<Crowd> crowds;
  for (const Disturbance& pair : disturbances) {
    const auto first = find(pair.first);
    if (first != lanes.end() && find(pair.second) != lanes.end()) {
      crowds.push_back({*first, 2, std::sqrt(pair.first_slowdown * pair.second_slowdown)});
    }
  }
  return crowds;
}

std::vector<Lane> memory_lanes() { return {Lane::Collective, Lane::H2D, Lane::D2H, Lane::CpuAdam}; }

std::vector<SharedResource> fit_shared(const Crowd& compute, const std::vector<Crowd>& memory,
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

}  // namespace athanor
