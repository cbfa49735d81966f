// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/normal_form.hpp"

#include "sim/model/cache_slots.hpp"
#include "sim/model/chunk_layout.hpp"

#include <algorithm>

namespace athanor {
namespace {

/// Turns leading and trailing counts that cover all `num_units` into all leading.
void normalise_cover(int& leading, int& trailing, int num_units) {
  leading = std::min(leading, num_units);
  trailing = std::min(trailing, num_units);
  if (leading + trailing < num_units) return;
  leading = num_units;
  trailing = 0;
}

void normalise_placement(Candidate& c, int num_units) {
  c.leading_gpu_parameters = std::max(c.leading_gpu_parameters, c.leading_gpu_optimizer);
  c.trailing_gpu_parameters = std::max(c.trailing_gpu_parameters, c.trailing_gpu_optimizer);
  if (c.sharding != Sharding::Sharded) c.leading_gpu_parameters = num_units;
  normalise_cover(c.leading_gpu_optimizer, c.trailing_gpu_optimizer, num_units);
  normalise_cover(c.leading_gpu_parameters, c.trailing_gpu_parameters, num_units);
  // Counted from the end, so units on the GPU are among them.
  c.trailing_nvme_optimizer =
      c.trailing_nvme_optimizer <= c.trailing_gpu_optimizer
          ? 0
          : std::min(c.trailing_nvme_optimizer, num_units - c.leading_gpu_optimizer);
  const int first_in_file =
      std::max(c.leading_gpu_parameters, num_units - c.trailing_nvme_optimizer);
  if (first_in_file >= num_units - c.trailing_gpu_parameters) c.nvme_parameters = false;
}

}  // namespace

NormalForm::NormalForm(const Architecture& architecture, int num_gpus, bool clips)
    : architecture_(architecture),
      clips_(clips),
      has_attention_(has_attention_units(architecture)),
      num_units_(static_cast<int>(architecture.units.size())),
      class_size_(largest_class_size(architecture)),
      cut_(num_gpus * kParameterAlignment),
      largest_chunk_(round_up(largest_unit_elements(architecture), cut_)) {}

Candidate NormalForm::of(const Candidate& candidate) const {
  Candidate c = candidate;
  c.chunk_elements = std::min(round_up(c.chunk_elements, cut_), largest_chunk_);
  c.recompute_units = std::min(c.recompute_units, num_units_ - 1);
  c.offload_units = std::clamp(std::min(c.recompute_units - 1, num_units_ - 3), 0, c.offload_units);
  c.gradient_buffers = std::min(c.gradient_buffers, class_size_);
  normalise_placement(c, num_units_);
  if (c.sharding != Sharding::Sharded || !has_attention_ || c.leading_gpu_optimizer == num_units_) {
    c.attention_on_gpu = false;
  }
  // Without state on the GPU there is nothing to copy.
  if (c.snapshot == Snapshot::Copy && !keeps_state_on_gpu(c)) c.snapshot = Snapshot::Versions;
  normalise_updates(c);
  if (clips_ || c.snapshot == Snapshot::Redo || c.batch.accumulation > 1 ||
      c.leading_gpu_optimizer == num_units_) {
    c.gradient_ring = 0;
  }
  if (c.sharding == Sharding::Sharded) {
    c.cache_slots = std::max(std::min(c.cache_slots, class_size_),
                             least_cache_slots(architecture_, c.prefetch_depth));
  } else {
    c.cache_slots = 1;
    c.prefetch_depth = 0;
  }
  return c;
}

void NormalForm::normalise_updates(Candidate& c) const {
  const int in_memory = num_units_ - std::max(c.trailing_gpu_optimizer, c.trailing_nvme_optimizer);
  c.gpu_adam_units = std::min(c.gpu_adam_units, in_memory);
  if (c.gpu_adam_units <= c.leading_gpu_optimizer) c.gpu_adam_units = 0;
  const int first_on_cpu = std::max(c.leading_gpu_optimizer, c.gpu_adam_units);
  c.late_updates = std::min(c.late_updates, num_units_ - c.trailing_gpu_optimizer);
  if (c.late_updates <= first_on_cpu) c.late_updates = 0;
  if (std::max(first_on_cpu, c.late_updates) >= in_memory) c.speculate = false;
  if (c.snapshot == Snapshot::Redo) {  // all updates are late
    c.late_updates = 0;
    c.speculate = false;
  }
  // The norm of gradients that were added up on the host is summed there.
  const bool sums = clips_ && c.batch.accumulation > 1;
  const bool updates = first_on_cpu < num_units_ - c.trailing_gpu_optimizer;
  if (c.leading_gpu_optimizer == num_units_ || !(updates || sums)) c.adam_threads = 1;
}

Candidate normal_form(const Candidate& candidate, const Architecture& architecture, int num_gpus,
                      bool clips) {
  return NormalForm(architecture, num_gpus, clips).of(candidate);
}

}  // namespace athanor
