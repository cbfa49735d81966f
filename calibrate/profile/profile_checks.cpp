// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/profile_checks.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

namespace athanor {
namespace {

/// Refuses numbers of ranks that experts cannot be divided among.
void check_expert_ranks(const Model& model, const ProfileOptions& options) {
  if (options.expert_ranks.empty()) return;
  const Architecture& architecture = model.architecture;
  const auto experts = std::ranges::find_if(architecture.units, has_only_experts);
  if (experts == architecture.units.end() || !model.part_unit) {
    throw InputError("--expert-ranks", architecture.name + " has no units of experts alone",
                     "Profile a mixture of experts with --split-blocks.");
  }
  for (const int ranks : options.expert_ranks) {
    const std::int64_t number = num_experts(*experts);
    const bool divides = ranks >= 1 && number % ranks == 0;
    if (!divides || unaligned_cut(*experts, tokens_travel(), ranks)) {
      throw InputError("--expert-ranks", fmt::format("{} experts on {} ranks", number, ranks),
                       "Use a number of ranks that divides the number of experts.");
    }
  }
  if (!(options.expert_capacity >= 1 && options.expert_capacity <= 1e6)) {
    throw InputError("--expert-capacity", fmt::format("{}", options.expert_capacity),
                     "Use 1 or more: rows of balanced routing have to fit.");
  }
}

/// Refuses numbers of ranks that tensors cannot be divided among.
void check_tensor_ranks(const Model& model, const ProfileOptions& options) {
  const Architecture& architecture = model.architecture;
  for (const int ranks : options.tensor_ranks) {
    bool any = false, divide = true;
    for (const Unit& unit : architecture.units) {
      if (!has_tensors_to_split(architecture, unit)) continue;
      any = true;
      divide = divide && tensors_divide(architecture, unit, ranks);
    }
    if (!any || !model.part_unit) {
      throw InputError("--tensor-ranks",
                       architecture.name + " has no units whose tensors can be split",
                       std::string(tensors_split().how_to_profile()));
    }
    if (!divide) {
      throw InputError(
          "--tensor-ranks",
          fmt::format("heads and matrices of {} on {} ranks", architecture.name, ranks),
          "Use a number of ranks that divides heads and inner features.");
    }
  }
}

}  // namespace

void check_options(const ProfileOptions& options) {
  constexpr int kMaxThreads = 4096;
  constexpr std::int64_t kMaxMicroBatch = 1'000'000;
  if (options.compute_threads < 1 || options.compute_threads > kMaxThreads) {
    throw InputError("--compute-threads", fmt::format("{} threads", options.compute_threads),
                     fmt::format("Use 1 to {}.", kMaxThreads));
  }
  if (options.micro_batches.empty()) {
    throw InputError("--micro-batches", "there is none", "Write sizes like 1,2,4.");
  }
  std::set<std::int64_t> seen;
  for (const std::int64_t size : options.micro_batches) {
    if (size < 1 || size > kMaxMicroBatch || !seen.insert(size).second) {
      throw InputError("--micro-batches", fmt::format("{} is out of range or there twice", size),
                       fmt::format("Use different sizes from 1 to {}.", kMaxMicroBatch));
    }
  }
}

void check_ranks(const Model& model, const ProfileOptions& options) {
  check_expert_ranks(model, options);
  check_tensor_ranks(model, options);
}

}  // namespace athanor
