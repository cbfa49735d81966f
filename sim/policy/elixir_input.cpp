// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/elixir_input.hpp"

#include "sim/policy/parameter_list.hpp"

#include <algorithm>
#include <vector>

namespace athanor {
namespace {

void append_reversed(std::vector<std::vector<int>>& trace, const Modules& modules) {
  trace.insert(trace.end(), modules.rbegin(), modules.rend());
}

std::int64_t sum_of(const elixir::SearchInput& input, const std::vector<int>& parameters) {
  std::int64_t sum = 0;
  for (const int p : parameters) sum += input.parameters[static_cast<std::size_t>(p)];
  return sum;
}

void trace_step(elixir::SearchInput& input, const std::vector<Modules>& units, int num_recompute) {
  for (const Modules& modules : units) {
    input.trace.insert(input.trace.end(), modules.begin(), modules.end());
    for (const auto& module : modules) {
      input.largest_module = std::max(input.largest_module, sum_of(input, module));
    }
  }
  for (std::size_t unit = units.size(); unit-- > 0;) {
    const Modules& modules = units[unit];
    if (static_cast<int>(unit) < num_recompute && unit + 1 < units.size()) {
      input.trace.insert(input.trace.end(), modules.begin(), modules.end());
      std::int64_t region = 0;
      for (const auto& module : modules) region += sum_of(input, module);
      input.largest_region = std::max(input.largest_region, region);
    }
    append_reversed(input.trace, modules);
  }
}

}  // namespace

elixir::SearchInput elixir_input(const Profile& profile, const Platform& platform,
                                 const PlanRequest& request, int num_recompute, Bytes activations) {
  const Architecture& architecture = profile.architecture;
  const ParameterList list(architecture);
  elixir::SearchInput input;
  input.num_gpus = request.num_gpus;
  input.dtype = profile.dtype;
  input.gpu_memory = device_memory(request, platform);
  input.driver_memory = platform.backend == "cuda" ? elixir::kDriverReserve : 0;
  input.activations = activations;
  for (const Unit& unit : architecture.units) {
    for (const Parameter& parameter : unit.parameters) {
      input.parameters.push_back(parameter.num_elements());
    }
  }
  input.fused.resize(input.parameters.size());
  std::vector<Modules> units;
  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    for (const Borrow& borrow : architecture.units[u].borrows) {
      input.fused[static_cast<std::size_t>(list.number_of(borrow))] = true;
    }
    units.push_back(list.modules_of(u));
  }
  trace_step(input, units, num_recompute);
  input.rates = elixir::published_rates(request.num_gpus);
  return input;
}

}  // namespace athanor
