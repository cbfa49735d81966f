// SPDX-License-Identifier: Apache-2.0
#include "sim/model/profile.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/value_path.hpp"
#include "sim/model/language_model_checks.hpp"
#include "sim/model/language_models.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace athanor {
namespace {

std::set<std::string> classes_of(const Architecture& architecture) {
  std::set<std::string> classes;
  for (const Unit& unit : architecture.units) {
    classes.insert(unit.unit_class);
  }
  return classes;
}

void check_kernel(const KernelCost& kernel, const ValuePath& path) {
  constexpr double kMaxLaunches = 1e9;
  check_name(path.key("name"), kernel.name);
  check_number(path.key("count"), kernel.count, 0, kMaxLaunches);
  check_number(path.key("seconds"), kernel.seconds, 0, kMaxSeconds);
  check_number(path.key("flops"), kernel.flops, 0);
  check_number(path.key("bytes"), kernel.bytes, 0);
}

void check_phase(const PhaseCost& phase, Bytes stays, const ValuePath& path) {
  check_number(path.key("seconds"), phase.seconds, 0, kMaxSeconds);
  check_number(path.key("spread"), phase.spread, 0, kMaxSeconds);
  check_integer(path.key("peak_bytes"), phase.peak_bytes, 0);
  check_number(path.key("issue_seconds"), phase.issue_seconds, 0, kMaxSeconds);
  check_number(path.key("unthrottled_seconds"), phase.unthrottled_seconds, 0, kMaxSeconds);
  check_number(path.key("watts"), phase.watts, 0, kMaxWatts);
  if ((phase.watts > 0) != (phase.unthrottled_seconds > 0)) {
    path.key("watts").reject("power and unthrottled time were not measured together",
                             "Give both unthrottled_seconds and watts, or neither.");
  }
  if (phase.replay) {
    const ValuePath replay = path.key("replay");
    check_number(replay.key("seconds"), phase.replay->seconds, 0, kMaxSeconds);
    check_number(replay.key("issue_seconds"), phase.replay->issue_seconds, 0, kMaxSeconds);
    check_integer(replay.key("graph_bytes"), phase.replay->graph_bytes, 0);
  }
  for (std::size_t i = 0; i < phase.kernels.size(); ++i) {
    check_kernel(phase.kernels[i], path.key("kernels").item(i));
  }
  if (phase.peak_bytes < stays) {
    path.key("peak_bytes")
        .reject(fmt::format("{} is less than the {} that stay after the phase", phase.peak_bytes,
                            stays),
                "A peak is never below what is left.");
  }
}

void check_staged_phase(const StagedPhase& phase, const ValuePath& path) {
  if (phase.stages.size() < 2 || phase.held.size() + 1 != phase.stages.size()) {
    path.reject(fmt::format("{} stages, and {} numbers of bytes between them", phase.stages.size(),
                            phase.held.size()),
                "Give two stages or more, and the bytes held after each but the last.");
  }
  for (std::size_t i = 0; i < phase.stages.size(); ++i) {
    const bool last = i + 1 == phase.stages.size();
    if (!last) check_integer(path.key("held").item(i), phase.held[i], 0);
    check_phase(phase.stages[i], 0, path.key("stages").item(i));
  }
}

void check_staged(const StagedCost& staged, const ValuePath& path) {
  constexpr int kMostWorld = 1 << 16;
  check_name(path.key("pattern"), staged.pattern);
  check_integer(path.key("world_size"), staged.world_size, 1, kMostWorld);
  check_integer(path.key("capacity"), staged.capacity, 0);
  check_integer(path.key("output_bytes"), staged.output_bytes, 0);
  check_integer(path.key("saved_bytes"), staged.saved_bytes, staged.output_bytes);
  check_integer(path.key("grad_input_bytes"), staged.grad_input_bytes, 0);
  check_staged_phase(staged.forward_keep, path.key("forward_keep"));
  check_staged_phase(staged.forward_discard, path.key("forward_discard"));
  check_staged_phase(staged.recompute, path.key("recompute"));
  check_staged_phase(staged.backward, path.key("backward"));
  if (staged.nondeterministic_backward) {
    check_staged_phase(*staged.nondeterministic_backward, path.key("nondeterministic_backward"));
  }
}

void check_cost(const UnitCost& cost, const ValuePath& path) {
  constexpr std::int64_t kMaxMicroBatch = 1'000'000;
  check_name(path.key("unit_class"), cost.unit_class);
  check_integer(path.key("micro_batch"), cost.micro_batch, 1, kMaxMicroBatch);
  check_integer(path.key("output_bytes"), cost.output_bytes, 0);
  check_integer(path.key("saved_bytes"), cost.saved_bytes, cost.output_bytes);
  check_integer(path.key("grad_input_bytes"), cost.grad_input_bytes, 0);
  check_phase(cost.forward_keep, cost.saved_bytes, path.key("forward_keep"));
  check_phase(cost.forward_discard, cost.output_bytes, path.key("forward_discard"));
  check_phase(cost.recompute, cost.saved_bytes, path.key("recompute"));
  check_phase(cost.backward, 0, path.key("backward"));
  if (cost.nondeterministic_backward) {
    check_phase(*cost.nondeterministic_backward, 0, path.key("nondeterministic_backward"));
  }
  for (std::size_t i = 0; i < cost.staged.size(); ++i) {
    check_staged(cost.staged[i], path.key("staged").item(i));
  }
}

void check_costs(const Profile& profile, const ValuePath& path) {
  const std::set<std::string> classes = classes_of(profile.architecture);
  std::set<std::pair<std::string, std::int64_t>> seen;
  for (std::size_t i = 0; i < profile.costs.size(); ++i) {
    const UnitCost& cost = profile.costs[i];
    check_cost(cost, path.item(i));
    if (!classes.contains(cost.unit_class)) {
      path.item(i)
          .key("unit_class")
          .reject(fmt::format("the architecture has no class '{}'", cost.unit_class),
                  fmt::format("It has {}.", fmt::join(classes, ", ")));
    }
    if (!seen.emplace(cost.unit_class, cost.micro_batch).second) {
      path.item(i).reject(
          fmt::format("a second cost of '{}' at micro-batch {}", cost.unit_class, cost.micro_batch),
          "Remove one of the two.");
    }
  }
  if (profile.micro_batches().empty()) {
    path.reject("no micro-batch size has a cost for every unit class",
                "Profile the model again with `athanor profile`.");
  }
}

void check_sequence_length(const Profile& profile, const ValuePath& path) {
  constexpr std::int64_t kMaxSequence = std::int64_t{1} << 30;
  check_integer(path, profile.sequence_length, 1, kMaxSequence);
  const auto& model = profile.architecture.language_model;
  if (model && !has_rotary_positions(*model) && profile.sequence_length > model->max_positions) {
    path.reject(fmt::format("{} is more than the model's {} learned positions",
                            profile.sequence_length, model->max_positions),
                "Use a shorter sequence.");
  }
}

/// Returns the phase of `cost` with the kernels of a plan.
template <typename Phase, typename Cost>
const Phase& backward_of(const Profile& profile, const Cost& cost, const std::string& unit_class,
                         bool deterministic) {
  if (deterministic || profile.always_deterministic) return cost.backward;
  if (cost.nondeterministic_backward) return *cost.nondeterministic_backward;
  throw InputError("profile of " + profile.architecture.name,
                   fmt::format("backward{} was measured with deterministic kernels alone, and the "
                               "plan has \"deterministic\": false",
                               unit_class.empty() ? "" : " of unit class '" + unit_class + "'"),
                   "Profile the model again with athanor profile --deterministic both, or plan "
                   "with --deterministic on.");
}

}  // namespace

std::vector<PhaseCost*> costs_of_phase(UnitCost& cost, std::size_t index) {
  const bool is_backward = kUnitPhases.at(index) == &UnitCost::backward;
  std::vector<PhaseCost*> found{&(cost.*kUnitPhases.at(index))};
  if (is_backward && cost.nondeterministic_backward)
    found.push_back(&*cost.nondeterministic_backward);
  for (StagedCost& staged : cost.staged) {
    for (PhaseCost& stage : (staged.*kStagedPhases.at(index)).stages) found.push_back(&stage);
    if (!is_backward || !staged.nondeterministic_backward) continue;
    for (PhaseCost& stage : staged.nondeterministic_backward->stages) found.push_back(&stage);
  }
  return found;
}

PhaseCost replayed(const PhaseCost& phase) {
  PhaseCost cost = phase;
  const ReplayCost& replay = phase.replay.value();
  if (phase.seconds > 0) cost.unthrottled_seconds *= replay.seconds / phase.seconds;
  cost.seconds = replay.seconds;
  cost.issue_seconds = replay.issue_seconds;
  return cost;
}

const PhaseCost& Profile::backward(const UnitCost& cost, bool deterministic) const {
  return backward_of<PhaseCost>(*this, cost, cost.unit_class, deterministic);
}

const StagedPhase& Profile::backward(const StagedCost& cost, bool deterministic) const {
  return backward_of<StagedPhase>(*this, cost, "", deterministic);
}

bool Profile::measures_both_kernels() const noexcept {
  return std::ranges::all_of(costs, [](const UnitCost& cost) {
    return cost.nondeterministic_backward &&
           std::ranges::all_of(cost.staged, [](const StagedCost& staged) {
             return staged.nondeterministic_backward.has_value();
           });
  });
}

bool Profile::measures_graphs(std::int64_t micro_batch) const noexcept {
  bool found = false;
  for (const UnitCost& cost : costs) {
    if (cost.micro_batch != micro_batch) continue;
    found = true;
    const bool fastest = !cost.nondeterministic_backward || cost.nondeterministic_backward->replay;
    const bool all = std::ranges::all_of(
        kUnitPhases, [&](auto phase) { return (cost.*phase).replay.has_value(); });
    if (!all || !fastest) return false;
  }
  return found;
}

const UnitCost& Profile::cost(const std::string& unit_class, std::int64_t micro_batch) const {
  for (const UnitCost& cost : costs) {
    if (cost.unit_class == unit_class && cost.micro_batch == micro_batch) {
      return cost;
    }
  }
  throw InputError(
      "profile of " + architecture.name,
      fmt::format("unit class '{}' was not profiled at micro-batch {}", unit_class, micro_batch),
      fmt::format("Profiled micro-batch sizes: {}. Use one of them or profile again.",
                  fmt::join(micro_batches(), ", ")));
}

namespace {

/// Says what staged costs are of: "tokens on 2 ranks with capacity 64".
std::string staged_text(std::string_view pattern, int world_size, std::int64_t capacity) {
  return fmt::format("{} on {} ranks{}", pattern, world_size,
                     capacity > 0 ? fmt::format(" with capacity {}", capacity) : "");
}

}  // namespace

const StagedCost& Profile::staged_cost(const std::string& unit_class, const Plan& plan,
                                       const UnitPlan& unit_plan) const {
  std::string known;
  for (const StagedCost& staged : cost(unit_class, plan.micro_batch).staged) {
    const bool fits = staged.pattern == unit_plan.pattern->name() &&
                      staged.world_size == plan.world_size && staged.capacity == unit_plan.capacity;
    if (fits) return staged;
    known += (known.empty() ? "" : ", ") +
             staged_text(staged.pattern, staged.world_size, staged.capacity);
  }
  throw InputError(
      "profile of " + architecture.name,
      fmt::format("unit class '{}' was not profiled under pattern {} at micro-batch {}", unit_class,
                  staged_text(unit_plan.pattern->name(), plan.world_size, unit_plan.capacity),
                  plan.micro_batch),
      fmt::format("Profiled: {}. Use one of them, profile again (athanor profile --split-blocks "
                  "{} {}), or let weights travel.",
                  known.empty() ? "none" : known,
                  unit_plan.capacity > 0 ? "--expert-ranks" : "--tensor-ranks", plan.world_size));
}

std::vector<std::int64_t> Profile::micro_batches() const {
  const std::set<std::string> classes = classes_of(architecture);
  std::set<std::pair<std::string, std::int64_t>> known;
  std::set<std::int64_t> sizes;
  for (const UnitCost& cost : costs) {
    known.emplace(cost.unit_class, cost.micro_batch);
    sizes.insert(cost.micro_batch);
  }
  std::vector<std::int64_t> complete;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(complete), [&](std::int64_t size) {
    return std::all_of(classes.begin(), classes.end(), [&](const std::string& unit_class) {
      return known.contains({unit_class, size});
    });
  });
  return complete;
}

void Profile::validate(const std::string& where) const {
  const ValuePath path(where);
  check_architecture(architecture, path.key("architecture"));
  check_name(path.key("device"), device);
  check_sequence_length(*this, path.key("sequence_length"));
  check_integer(path.key("compute_threads"), compute_threads, 1);
  check_integer(path.key("batch_bytes_per_sample"), batch_bytes_per_sample, 0);
  check_integer(path.key("workspace_bytes"), workspace_bytes, 0);
  check_number(path.key("launch_seconds"), launch_seconds, 0, kMaxSeconds);
  check_number(path.key("matmul_flops_per_second"), matmul_flops_per_second, 0, kMaxNumber);
  check_costs(*this, path.key("costs"));
}

Profile unmeasured_profile(const Architecture& architecture, DataType dtype,
                           std::int64_t sequence_length, std::int64_t micro_batch) {
  Profile profile;
  profile.architecture = architecture;
  profile.device = "unmeasured";
  profile.dtype = dtype;
  profile.sequence_length = sequence_length;
  profile.always_deterministic = true;  // no costs tell kernels apart
  for (const std::string& unit_class : classes_of(architecture)) {
    UnitCost cost;
    cost.unit_class = unit_class;
    cost.micro_batch = micro_batch;
    for (const auto phase : kUnitPhases) (cost.*phase).replay.emplace();
    profile.costs.push_back(cost);
  }
  return profile;
}

}  // namespace athanor
