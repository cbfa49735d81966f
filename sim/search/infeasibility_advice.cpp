// SPDX-License-Identifier: Apache-2.0
#include "sim/search/infeasibility_advice.hpp"

#include "sim/model/enum_names.hpp"
#include "sim/policy/memory_floor.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/space/candidate_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <ranges>

namespace athanor {
namespace {

/// The plans of a problem's default space, and their memory.
class DefaultPlans {
 public:
  explicit DefaultPlans(const TuningProblem& problem)
      : problem_(problem),
        estimator_(problem),
        space_(default_search_space(problem)),
        groups_(space_, problem.profile.architecture, problem.request.num_gpus,
                {[this](const Candidate& candidate) { return estimator_.peak_bytes(candidate); },
                 problem.limits, problem.ranks_per_node}) {}
  DefaultPlans(const DefaultPlans&) = delete;
  DefaultPlans& operator=(const DefaultPlans&) = delete;

  [[nodiscard]] bool some_fits() const { return groups_.some_fits(); }

  /// Least bytes in a node's files among the plans that fit; none: nothing fits.
  [[nodiscard]] std::optional<Bytes> least_nvme() {
    std::optional<Bytes> least;
    const CandidateFamilies& families = groups_.families();
    for (std::size_t family = 0; family < families.size() && least != 0; ++family) {
      const std::optional<FamilyReach> reach = families.reach(family);
      // With more on the GPU less is in files.
      if (!reach || (least && nvme_bytes(estimator_.peak_bytes(reach->most)) >= *least)) continue;
      for (const Candidate& representative : families.representatives(family)) {
        const TierBytes peak = estimator_.peak_bytes(representative);
        if (!athanor::fits(peak, problem_.ranks_per_node, problem_.limits)) continue;
        least = std::min(least.value_or(nvme_bytes(peak)), nvme_bytes(peak));
      }
    }
    return least;
  }

 private:
  [[nodiscard]] Bytes nvme_bytes(const TierBytes& peak) const {
    return node_nvme_bytes(peak, problem_.ranks_per_node);
  }

  const TuningProblem& problem_;
  Estimator estimator_;
  SearchSpace space_;
  CandidateGroups groups_;
};

/// Whether any plan fits when `request` is asked instead.
bool some_plan_fits(const TuningProblem& problem, const PlanRequest& request) {
  const TuningProblem other = tuning_problem(problem.profile, problem.platform, request);
  return DefaultPlans(other).some_fits();
}

/// Proposes NVMe where the request gives none and the platform has it.
std::vector<std::string> some_nvme(const TuningProblem& problem) {
  PlanRequest other = problem.request;
  if (other.limits.nvme > 0 || !has_nvme(problem.platform)) return {};
  other.limits.nvme = std::numeric_limits<Bytes>::max();
  const TuningProblem with_nvme = tuning_problem(problem.profile, problem.platform, other);
  const std::optional<Bytes> least = DefaultPlans(with_nvme).least_nvme();
  if (!least || *least == 0) return {};
  return {"--nvme " + option_size(*least)};
}

/// Whether the request's batch splits over its GPUs.
bool can_split(const PlanRequest& request, const Profile& profile) {
  if (request.global_batch % request.num_gpus != 0) return false;
  const std::int64_t per_rank = request.global_batch / request.num_gpus;
  const auto divides = [&](std::int64_t size) {
    return per_rank % size == 0 && size == request.micro_batch.value_or(size);
  };
  const std::vector<std::int64_t> sizes = profile.micro_batches();
  return std::any_of(sizes.begin(), sizes.end(), divides);
}

std::vector<std::string> smaller_micro_batch(const TuningProblem& problem) {
  const PlanRequest& request = problem.request;
  if (!request.micro_batch) return {};
  PlanRequest other = request;
  other.micro_batch.reset();
  for (const BatchSplit& split : batch_splits(other, problem.profile)) {
    if (split.micro_batch >= *request.micro_batch) continue;
    other.micro_batch = split.micro_batch;
    if (some_plan_fits(problem, other)) {
      return {fmt::format("--micro-batch {}", split.micro_batch)};
    }
  }
  return {};
}

/// Proposes a redo log where versions or copies do not fit. It needs less memory, unless the model
/// is tiny.
std::vector<std::string> redo_log(const TuningProblem& problem) {
  PlanRequest other = problem.request;
  if (!keeps_versions(other.snapshot) || other.tries_snapshots ||
      other.adam_state != AdamState::Float32) {
    return {};
  }
  if (other.snapshot_copies > 1) return {};  // a log has no copies
  if (problem.platform.cpu_adam.empty()) return {};
  other.snapshot = Snapshot::Redo;
  other.snapshot_every = 1;
  if (!some_plan_fits(problem, other)) return {};
  return {"--snapshot redo"};
}

std::vector<std::string> more_gpus(const TuningProblem& problem) {
  PlanRequest other = problem.request;
  for (other.num_gpus *= 2; problem.platform.holds(other.num_gpus); other.num_gpus *= 2) {
    if (can_split(other, problem.profile) && some_plan_fits(problem, other)) {
      return {fmt::format("--gpus {}", other.num_gpus)};
    }
  }
  return {};
}

/// Proposes narrower moments of Adam, which nobody gets unasked: bf16, or int8 where only that
/// fits.
std::vector<std::string> narrower_adam_state(const TuningProblem& problem) {
  PlanRequest other = problem.request;
  if (other.adam_state == AdamState::Int8 || other.snapshot == Snapshot::Redo) return {};
  const bool in_fp32 = other.adam_state == AdamState::Float32;
  for (const AdamState narrower : {AdamState::BFloat16, AdamState::Int8}) {
    if (narrower == AdamState::BFloat16 && !in_fp32) continue;
    other.adam_state = narrower;
    if (!some_plan_fits(problem, other)) continue;
    return {fmt::format("--adam-state {}, which changes what is learnt",
                        name_of(kShortAdamStateNames, narrower))};
  }
  return {};
}

/// The last change ends the text, without a full stop that would be copied with it.
InfeasibleError compose(const std::string& subject, const TierBytes& peak, int ranks_per_node,
                        const MemoryLimits& limits, const std::vector<std::string>& changes,
                        const std::string& proof = "") {
  return {fmt::format("{}: {}{}", subject,
                      fmt::join(memory_overflows(peak, ranks_per_node, limits), "; "), proof),
          fmt::format("What would fit: {}", fmt::join(changes, ", or "))};
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// Changes to the plan itself, each tried by lowering.
std::vector<std::string> plan_changes(const Plan& plan, const Profile& profile, int ranks_per_node,
                                      const MemoryLimits& limits) {
  std::vector<std::string> changes;
  const auto tried = [&](const Plan& changed, std::string text) {
    const bool works = fits(plan_peak_bytes(profile, changed), ranks_per_node, limits);
    if (works) changes.push_back(std::move(text));
    return works;
  };
  const int num_units = static_cast<int>(plan.units.size());
  Plan recompute = plan;
  recompute_leading(recompute, num_units);
  if (!tried(recompute, "recompute in every unit")) {
    recompute_leading(recompute, num_units, num_units);
    tried(recompute, "recompute in every unit with its output on the host");
  }
  const std::vector<std::int64_t> sizes = profile.micro_batches();
  for (const std::int64_t size : std::views::reverse(sizes)) {
    if (size >= plan.micro_batch || (plan.micro_batch * plan.accumulation) % size != 0) continue;
    Plan smaller = plan;
    smaller.accumulation = plan.micro_batch * plan.accumulation / size;
    smaller.micro_batch = size;
    if (tried(smaller,
              fmt::format("micro-batch {} with accumulation {}", size, smaller.accumulation))) {
      break;
    }
  }
  return changes;
}

}  // namespace

std::string option_size(Bytes bytes) { return fmt::format("{}MiB", (bytes + kMiB - 1) / kMiB); }

void ClosestPlans::add(const TierBytes& peak) {
  const MemoryLimits& limits = problem_.limits;
  const int ranks_per_node = problem_.ranks_per_node;
  const auto excess = [&](const TierBytes& bytes) {
    return excess_bytes(bytes, ranks_per_node, limits);
  };
  if (num_plans_++ == 0 || excess(peak) < excess(closest_)) closest_ = peak;
  const auto lower_to = [](std::optional<Bytes>& smallest, Bytes value) {
    smallest = std::min(smallest.value_or(value), value);
  };
  const auto fits_without = [&](Bytes MemoryLimits::* tier) {
    MemoryLimits others = limits;
    others.*tier = 0;
    return fits(peak, ranks_per_node, others);
  };
  if (fits_without(&MemoryLimits::gpu)) lower_to(gpu_, peak.gpu);
  if (fits_without(&MemoryLimits::host)) lower_to(host_, node_host_bytes(peak, ranks_per_node));
  if (limits.nvme > 0 && fits_without(&MemoryLimits::nvme)) {
    lower_to(nvme_, node_nvme_bytes(peak, ranks_per_node));
  }
}

std::vector<std::string> ClosestPlans::memory_changes() const {
  std::vector<std::string> changes;
  if (gpu_) changes.push_back("--gpu-memory " + option_size(*gpu_));
  if (host_) changes.push_back("--host-memory " + option_size(*host_));
  if (nvme_) changes.push_back("--nvme " + option_size(*nvme_));
  if (changes.empty()) {
    changes.push_back(fmt::format("--gpu-memory {} with --host-memory {}",
                                  option_size(closest_.gpu),
                                  option_size(node_host_bytes(closest_, problem_.ranks_per_node))));
  }
  return changes;
}

InfeasibleError no_plan_fits(const ClosestPlans& plans, const TuningProblem& problem) {
  std::vector<std::string> changes = plans.memory_changes();
  append(changes, some_nvme(problem));
  append(changes, smaller_micro_batch(problem));
  append(changes, redo_log(problem));
  append(changes, more_gpus(problem));
  append(changes, narrower_adam_state(problem));
  return compose(fmt::format("no plan fits (closest of {})", plans.num_plans()), plans.closest(),
                 problem.ranks_per_node, problem.limits, changes, ". " + proof_text(problem));
}

InfeasibleError plan_does_not_fit(const Plan& plan, const TierBytes& peak,
                                  const TuningProblem& problem) {
  const MemoryLimits& limits = problem.limits;
  const int ranks_per_node = problem.ranks_per_node;
  ClosestPlans itself(problem);
  itself.add(peak);
  std::vector<std::string> changes = itself.memory_changes();
  append(changes, plan_changes(plan, problem.profile, ranks_per_node, limits));
  if (DefaultPlans(problem).some_fits()) changes.emplace_back("a plan from athanor tune");
  return compose(fmt::format("plan {} does not fit", plan.name), peak, ranks_per_node, limits,
                 changes);
}

}  // namespace athanor
