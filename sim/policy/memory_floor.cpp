// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/memory_floor.hpp"

#include "sim/lowering/snapshot_memory.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace athanor {
namespace {

constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

/// Elements of all units, and of one unit of each class.
struct Elements {
  std::int64_t all = 0, of_classes = 0;
};

/// Whether the profile has costs of the class under another pattern than weights travel. A rank
/// then has parts of it alone, and its floors take nothing for granted.
bool may_travel(const Profile& profile, const std::string& unit_class, int num_gpus) {
  return std::ranges::any_of(profile.costs, [&](const UnitCost& cost) {
    return cost.unit_class == unit_class &&
           std::ranges::any_of(cost.staged, [num_gpus](const StagedCost& staged) {
             return staged.world_size == num_gpus;
           });
  });
}

Elements count_elements(const Profile& profile, int num_gpus) {
  Elements elements;
  std::map<std::string, std::int64_t> classes;
  for (const Unit& unit : profile.architecture.units) {
    if (unit.parameters.empty()) continue;
    std::int64_t own = 0;
    static_cast<void>(parameter_offsets(unit, own));
    elements.all += own;
    if (!may_travel(profile, unit.unit_class, num_gpus)) classes[unit.unit_class] = own;
  }
  for (const auto& [name, own] : classes) elements.of_classes += own;
  return elements;
}

/// Device memory of the largest backward: the batch, what the unit saved, the gradient of its
/// output, and what backward itself takes.
Bytes backward_bytes(const Profile& profile, std::int64_t micro_batch, int num_gpus,
                     bool deterministic) {
  Bytes most = 0, output_gradient = 0;
  const std::vector<Unit>& units = profile.architecture.units;
  for (std::size_t u = units.size(); u-- > 0;) {
    const UnitCost& cost = profile.cost(units[u].unit_class, micro_batch);
    if (!may_travel(profile, units[u].unit_class, num_gpus)) {
      most = std::max(most, cost.saved_bytes + output_gradient +
                                profile.backward(cost, deterministic).peak_bytes);
    }
    output_gradient = cost.grad_input_bytes;
  }
  return most + profile.batch_bytes_per_sample * micro_batch;
}

/// Bytes of an element for which one rank answers, by where its state is.
struct ElementBytes {
  Bytes gpu = 0, host = 0, file = 0;
  Bytes copies = 0;  ///< in host memory, wherever its state is
};

ElementBytes element_bytes(const TuningProblem& problem, std::int64_t accumulation) {
  const DataType dtype = problem.profile.dtype;
  const Bytes gradient = size_of(gradient_dtype(dtype, accumulation));
  // Scales of moments in int8 are left out: this is a floor.
  const Bytes state = optimizer_state_bytes(1, dtype, problem.request.adam_state);
  const bool waits = accumulation > 1 || problem.request.clipping != Clipping::None ||
                     problem.request.snapshot == Snapshot::Redo;
  // Copies for a ward are not counted: a plan of replicated units keeps none.
  const Bytes version = size_of(dtype) + state;
  const Bytes waiting = waits ? gradient : 0;
  const Bytes on_gpu = version + gradient;
  switch (problem.request.snapshot) {
    case Snapshot::Versions:
      return {on_gpu, kKeptVersions * version + waiting, state, 0};
    case Snapshot::Copy:
      return {on_gpu, waiting, state, kKeptVersions * version};
    case Snapshot::None:
    case Snapshot::Redo:
      break;
  }
  return {on_gpu, version + waiting, state, 0};
}

/// Floors of the plans with one division of the batch.
MemoryFloor floor_of(const TuningProblem& problem, const BatchSplit& batch) {
  const Profile& profile = problem.profile;
  const Bytes parameter = size_of(profile.dtype);
  const Elements elements = count_elements(profile, problem.request.num_gpus);
  const auto shared = [&](std::int64_t count) {
    return static_cast<double>(count) / problem.request.num_gpus;
  };
  MemoryFloor floor{.gpu = 2 * elements.of_classes * parameter + profile.workspace_bytes +
                           backward_bytes(profile, batch.micro_batch, problem.request.num_gpus,
                                          problem.request.deterministic)};
  if (problem.limits.gpu == 0 || problem.limits.host == 0) return floor;
  const ElementBytes bytes = element_bytes(problem, batch.accumulation);
  // Parameters of one unit of each class are in the floor of the GPU already.
  const double left = static_cast<double>(problem.limits.gpu - floor.gpu) +
                      shared(elements.of_classes) * static_cast<double>(parameter);
  double outside = shared(elements.all) - std::max(0.0, left) / static_cast<double>(bytes.gpu);
  if (problem.limits.nvme > 0) {
    outside -= static_cast<double>(problem.limits.nvme) /
               static_cast<double>(problem.ranks_per_node * bytes.file);
  }
  // Bytes are whole, so rounding down hides no plan.
  floor.host = static_cast<Bytes>(std::floor(
      problem.ranks_per_node * (std::max(0.0, outside) * static_cast<double>(bytes.host) +
                                shared(elements.all) * static_cast<double>(bytes.copies))));
  return floor;
}

bool exceeds(Bytes floor, Bytes limit) { return excess_bytes(floor, limit) > 0; }

}  // namespace

MemoryFloor memory_floor(const TuningProblem& problem) {
  MemoryFloor least{kNoLimit, kNoLimit};
  for (const BatchSplit& batch : batch_splits(problem.request, problem.profile)) {
    const MemoryFloor floor = floor_of(problem, batch);
    least.gpu = std::min(least.gpu, floor.gpu);
    if (!exceeds(floor.gpu, problem.limits.gpu)) least.host = std::min(least.host, floor.host);
  }
  if (least.host == kNoLimit) least.host = 0;  // GPUs that are too small exclude every plan
  return least;
}

std::string proof_text(const TuningProblem& problem) {
  const MemoryFloor floor = memory_floor(problem);
  if (exceeds(floor.gpu, problem.limits.gpu)) {
    return fmt::format("Proven: every plan needs at least {} of a GPU", format_bytes(floor.gpu));
  }
  if (exceeds(floor.host, problem.limits.host)) {
    return fmt::format("Proven: every plan needs at least {} of host memory beside such GPUs",
                       format_bytes(floor.host));
  }
  return "Not proven: no bound excludes plans that the search does not try";
}

}  // namespace athanor
