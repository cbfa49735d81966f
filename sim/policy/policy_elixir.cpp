// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/policy_elixir.hpp"

#include "sim/bounds/bounds.hpp"
#include "sim/cost/costs.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/policy/elixir_input.hpp"
#include "sim/policy/parameter_list.hpp"
#include "sim/policy/policy_rules.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace athanor {
namespace {

/// Returns the device memory that a lean plan takes on top of its static buffers.
Bytes activation_bytes(const Profile& profile, const Plan& lean) {
  const Program program = lower(profile, lean);
  Bytes resident = 0;
  for (const Buffer& buffer : program.static_buffers) {
    if (buffer.tier == Tier::Gpu) resident += buffer.bytes;
  }
  return peak_bytes(program).gpu - resident;
}

/// Size of a class of units in the cache: elements of its largest unit, and number of units.
struct ClassSize {
  std::int64_t elements = 0;
  int units = 0;
};

/// Returns the slots of the class that has most units, in a cache of `elements`. Every other class
/// takes one slot. Fused parameters are in no block.
int whole_slots(const Architecture& architecture, const elixir::SearchInput& input,
                double elements) {
  const ParameterList list(architecture);
  std::map<std::string, ClassSize> classes;
  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    const Unit& unit = architecture.units[u];
    if (unit.parameters.empty()) continue;
    std::int64_t in_blocks = 0;
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const auto number = static_cast<std::size_t>(list.number(u, p));
      in_blocks += input.fused[number] ? 0 : input.parameters[number];
    }
    ClassSize& size = classes[unit.unit_class];
    size.elements = std::max(size.elements, in_blocks);
    ++size.units;
  }
  ClassSize main;
  for (const auto& [name, size] : classes) {
    elements -= static_cast<double>(size.elements);
    if (size.units > main.units) main = size;
  }
  elements += static_cast<double>(main.elements);
  const double slots = elements / static_cast<double>(std::max<std::int64_t>(1, main.elements));
  return std::max(static_cast<int>(std::clamp(slots, 0.0, static_cast<double>(main.units))),
                  elixir::kPrefetchDepth + 1);
}

/// Returns the home that Elixir gives each parameter, by number.
std::vector<Home> parameter_homes(const elixir::SearchResult& result) {
  std::vector<Home> homes;
  std::size_t fused = 0;
  for (const int chunk : result.chunk_of) {
    homes.push_back(chunk < 0 ? result.fused_homes[fused++]
                              : result.chunk_homes[static_cast<std::size_t>(chunk)]);
  }
  return homes;
}

void place_as(Plan& plan, const Architecture& architecture, const std::vector<Home>& homes) {
  const ParameterList list(architecture);
  const std::vector<UnitLayout> layouts = layout_units(architecture, plan);
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const auto& offsets = layouts[u].parameter_offsets;
    std::vector<Placement> placements;
    for (const Chunk& chunk : layouts[u].chunks) {
      const auto after = std::ranges::upper_bound(offsets, chunk.offset + chunk.elements / 2);
      const auto parameter = static_cast<std::size_t>(after - offsets.begin()) - 1;
      const Home home = homes[static_cast<std::size_t>(list.number(u, parameter))];
      placements.push_back(home == Home::Gpu ? kAllOnGpu : kAllOnHost);
    }
    place_chunks(plan.units[u], placements);
  }
}

}  // namespace

elixir::Rates calibrated_rates(const Platform& platform, int num_gpus, int adam_threads) {
  constexpr Bytes kCopy = 10'000'000'000;
  constexpr std::int64_t kElements = 1'000'000'000;
  const BoundTables slowdown = bound_tables(platform, num_gpus, adam_threads);
  Program header;
  header.world_size = num_gpus;
  header.cpu_adam_threads = adam_threads;
  const auto rate = [&](OpKind kind, Lane lane, std::int64_t amount) {
    Operation op;
    op.kind = kind;
    op.lane = lane;
    op.bytes = op.elements = amount;
    const Seconds seconds =
        solo_seconds(op, header, platform) * slowdown.least_slowdown[lane_index(lane)];
    return num_gpus * static_cast<double>(amount) / seconds * 1e-9;
  };
  return {.host_to_device = rate(OpKind::Fetch, Lane::H2D, kCopy),
          .device_to_host = rate(OpKind::GradD2H, Lane::D2H, kCopy),
          .device_adam = rate(OpKind::Adam, Lane::Compute, kElements / num_gpus),
          .host_adam = rate(OpKind::Adam, Lane::CpuAdam, kElements / num_gpus)};
}

std::optional<Plan> elixir_plan(const std::string& name, const Profile& profile,
                                const Platform& platform, const PlanRequest& request,
                                const BatchSplit& batch, int num_recompute,
                                const elixir::Rates& rates) {
  const Architecture& architecture = profile.architecture;
  const std::int64_t whole = largest_unit_elements(architecture);
  const auto all_on_host = [&](std::int64_t chunk_elements) {
    Plan plan =
        uniform_plan(name, profile, request, batch, chunk_elements, Sharding::Sharded, kAllOnHost);
    recompute_leading(plan, num_recompute);
    plan.prefetch_depth = elixir::kPrefetchDepth;
    plan.schedule = policy::kBlocking;
    return plan;
  };
  elixir::SearchInput input = elixir_input(profile, platform, request, num_recompute,
                                           activation_bytes(profile, all_on_host(whole)));
  input.rates = rates;
  const std::optional<elixir::SearchResult> found = elixir::search(input);
  if (!found) return std::nullopt;
  Plan plan =
      all_on_host(found->chunk_elements > 0 ? std::min(found->chunk_elements, whole) : whole);
  plan.cache_slots = whole_slots(
      architecture, input,
      static_cast<double>(found->num_blocks) * static_cast<double>(found->chunk_elements));
  place_as(plan, architecture, parameter_homes(*found));
  return plan;
}

}  // namespace athanor
