// SPDX-License-Identifier: Apache-2.0
#include "sim/settings/fitting_keys.hpp"

#include "sim/settings/peer_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

namespace athanor {
namespace {

struct Change {
  std::string text;
  PeerSettings settings;
};

/// Returns the bytes by which the settings exceed the limits.
Bytes excess_with(const PeerSettings& settings, const TuningProblem& problem) {
  const Plan plan = peer_plan(settings, problem.profile, problem.platform, problem.request);
  return excess_bytes(plan_peak_bytes(problem.profile, plan), problem.ranks_per_node,
                      problem.limits);
}

bool fits_with(const PeerSettings& settings, const TuningProblem& problem) {
  return excess_with(settings, problem) == 0;
}

/// Name of a key to set, or the script's own matter where the system has no key.
std::string key_of(const Origin& origin, const char* otherwise) {
  return origin.key.empty() ? otherwise : origin.key;
}

void recompute_all(const PeerSettings& from, std::vector<Change>& changes) {
  if (from.recompute.value.every == 1) return;
  changes.push_back({fmt::format("{} (every layer recomputes)",
                                 key_of(from.recompute.origin, "gradient checkpointing")),
                     from});
  changes.back().settings.recompute.value.every = 1;
}

/// Adds the next smaller micro-batch that was profiled, and so on down to one.
void smaller_micro_batches(const PeerSettings& from, const Profile& profile,
                           std::vector<Change>& changes) {
  const std::vector<std::int64_t> sizes = profile.micro_batches();
  const std::int64_t per_rank = from.micro_batch.value * from.accumulation.value;
  for (const std::int64_t size : std::views::reverse(sizes)) {
    if (size >= from.micro_batch.value || per_rank % size != 0) continue;
    changes.push_back(
        {fmt::format("{} {} with {} {}", key_of(from.micro_batch.origin, "micro-batch"), size,
                     key_of(from.accumulation.origin, "accumulation"), per_rank / size),
         from});
    changes.back().settings.micro_batch.value = size;
    changes.back().settings.accumulation.value = per_rank / size;
  }
}

void shard_all(const PeerSettings& from, std::vector<Change>& changes) {
  if (from.partition.value == Partition::Parameters || from.partition.origin.key.empty()) return;
  const bool has_stages = from.peer == Peer::DeepSpeed;
  changes.push_back(
      {fmt::format("{} {}", from.partition.origin.key, has_stages ? "3" : "FSDP"), from});
  changes.back().settings.partition.value = Partition::Parameters;
}

/// Adds the state on the host, and then with the parameters, or both where one key moves both.
void offload(const PeerSettings& from, const Platform& platform, std::vector<Change>& changes) {
  const std::string& optimizer = from.optimizer.origin.key;
  if (platform.cpu_adam.empty() || optimizer.empty()) return;
  const bool together = optimizer == from.parameters.origin.key;
  const bool can_move_state = from.partition.value != Partition::None;
  const bool can_move_all = from.partition.value == Partition::Parameters;
  Change change{fmt::format("{} {}", optimizer, together ? "true" : "cpu"), from};
  change.settings.optimizer.value = Home::Host;
  change.settings.optimizer_share.value = 1;
  const bool on_gpu = from.optimizer.value == Home::Gpu || from.optimizer_share.value < 1;
  if (on_gpu && can_move_state && !together) changes.push_back(change);
  if (from.parameters.value != Home::Gpu || !can_move_all) return;
  change.settings.parameters.value = Home::Host;
  if (!on_gpu) change.settings.optimizer.value = from.optimizer.value;
  if (!together) {
    change.text = on_gpu ? fmt::format("{} with {} cpu", change.text, from.parameters.origin.key)
                         : fmt::format("{} cpu", from.parameters.origin.key);
  }
  changes.push_back(std::move(change));
}

void release_parameters(const PeerSettings& from, std::vector<Change>& changes) {
  if (from.partition.value != Partition::Parameters) return;
  if (!from.reshard.value) {
    changes.push_back({fmt::format("{} (release after forward)", from.reshard.origin.key), from});
    changes.back().settings.reshard.value = true;
  }
  if (from.peer == Peer::DeepSpeed && from.live_elements.value > 0) {
    changes.push_back(
        {fmt::format("{} 0 (two layers at a time)", from.live_elements.origin.key), from});
    changes.back().settings.live_elements.value = 0;
  }
}

void use_files(const PeerSettings& from, const Platform& platform, std::vector<Change>& changes) {
  const bool can = from.peer == Peer::DeepSpeed && from.partition.value == Partition::Parameters &&
                   from.optimizer.value == Home::Host && has_nvme(platform);
  if (!can) return;
  changes.push_back({fmt::format("{} nvme", from.optimizer.origin.key), from});
  changes.back().settings.optimizer.value = Home::Nvme;
}

std::vector<Change> changes_of(const PeerSettings& from, const TuningProblem& problem) {
  std::vector<Change> changes;
  smaller_micro_batches(from, problem.profile, changes);
  recompute_all(from, changes);
  release_parameters(from, changes);
  shard_all(from, changes);
  offload(from, problem.platform, changes);
  use_files(from, problem.platform, changes);
  return changes;
}

/// Makes one change after the other, the leanest of its kind, until the settings fit.
std::vector<std::string> fitting_together(PeerSettings settings, const TuningProblem& problem) {
  constexpr int kMost = 8;
  std::vector<std::string> texts;
  for (int i = 0; i < kMost; ++i) {
    const std::vector<Change> changes = changes_of(settings, problem);
    const auto excess = [&](const Change& change) { return excess_with(change.settings, problem); };
    const auto least = std::ranges::min_element(changes, {}, excess);
    if (least == changes.end()) return {};
    texts.push_back(least->text);
    settings = least->settings;
    if (fits_with(settings, problem)) return {fmt::format("{}", fmt::join(texts, " and "))};
  }
  return {};
}

}  // namespace

std::vector<std::string> fitting_keys(const PeerSettings& settings, const TuningProblem& problem) {
  std::vector<std::string> texts;
  bool smaller_found = false;
  for (const Change& change : changes_of(settings, problem)) {
    const bool is_smaller = change.settings.micro_batch.value < settings.micro_batch.value;
    if ((is_smaller && smaller_found) || !fits_with(change.settings, problem)) continue;
    smaller_found = smaller_found || is_smaller;
    texts.push_back(change.text);
  }
  return texts.empty() ? fitting_together(settings, problem) : texts;
}

}  // namespace athanor
