// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/unsupported_choices.hpp"

#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

void UnsupportedChoices::mixed_sharding(const std::string& system) {
  if (outline_.uniform_sharding()) return;
  add(
      fmt::format("sharding: {} units are sharded, {} optimizer-sharded and {} replicated; {} "
                  "treats all as {}",
                  outline_.sharded, outline_.optimizer_sharded, outline_.replicated, system,
                  name_of(kShardingNames, outline_.main_sharding())));
}

void UnsupportedChoices::cpu_adam_threads(const std::string& instead) {
  if (outline_.host_optimizer > 0) {
    add(fmt::format("cpu_adam_threads {}: {}", plan_.cpu_adam_threads, instead));
  }
}

void UnsupportedChoices::compute_threads() {
  if (plan_.compute_threads > 1) {
    add(fmt::format("compute_threads {}: of athanor's CPU backend", plan_.compute_threads));
  }
}

void UnsupportedChoices::partial_recompute(const std::string& instead) {
  const std::int64_t count = outline_.recompute_units;
  // The unit with the loss always keeps.
  if (count > 0 && count + 1 < outline_.compute_units) {
    add(fmt::format("activation: {} of {} units recompute; {}", count, outline_.compute_units,
                    instead));
  }
}

void UnsupportedChoices::offloaded_outputs(const std::string& instead) {
  if (outline_.offload_units > 0) {
    add(fmt::format("activation: outputs of {} units are on the host; {}", outline_.offload_units,
                    instead));
  }
}

void UnsupportedChoices::on_nvme(const std::string& instead) {
  if (outline_.nvme_optimizer > 0) {
    add(fmt::format("optimizer: the state of {} of the chunks is on NVMe; {}",
                    percent(outline_.nvme_optimizer / outline_.chunks), instead));
  }
  if (outline_.nvme_parameters > 0) {
    add(fmt::format("parameters: those of {} of the chunks are on NVMe; {}",
                    percent(outline_.nvme_parameters / outline_.chunks), instead));
  }
}

void UnsupportedChoices::sequence_length(const std::string& system) {
  add(fmt::format("sequence_length {}: {} takes it from the data", plan_.sequence_length, system));
}

void UnsupportedChoices::gradient_buffers(const std::string& instead) {
  add(fmt::format("gradient_buffers {}: {}", plan_.gradient_buffers, instead));
}

void UnsupportedChoices::schedule(const std::string& system) {
  if (plan_.schedule != Schedule{}) {
    add(fmt::format("schedule: {} overlaps copies and updates as it does", system));
  }
  for (const UnitPattern* const pattern : travelling_patterns(plan_)) {
    add(fmt::format("pattern: {}; {} has no key for it here", pattern->phrase(), system));
  }
  if (plan_.micro_batch_group > 1) {
    add(fmt::format("micro_batch_group {}: {} runs micro-batches one after the other",
                    plan_.micro_batch_group, system));
  }
  if (plan_.late_updates > 0) {
    add(fmt::format("late_updates {}: {} updates in its own order", plan_.late_updates, system));
  }
  if (streams_state(plan_)) {
    add(fmt::format("adam \"gpu\": {} updates on the processor beside the state", system));
  }
  if (plan_.snapshot != Snapshot::None) {
    add(fmt::format("snapshot \"{}\": {} keeps no state in memory that outlives it",
                    name_of(kSnapshotNames, plan_.snapshot), system));
  }
  if (plan_.adam_state != AdamState::Float32) {
    add(fmt::format("adam_state \"{}\": {} keeps Adam's moments in fp32 under these settings",
                    name_of(kAdamStateNames, plan_.adam_state), system));
  }
  if (plan_.clipping == Clipping::Speculate) {
    add(fmt::format("clipping \"speculate\": {} waits for the norm", system));
  }
}

}  // namespace athanor
