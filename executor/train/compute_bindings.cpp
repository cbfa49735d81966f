// SPDX-License-Identifier: Apache-2.0
#include "executor/train/compute_bindings.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace athanor {
namespace {

using UnitMicroBatch = std::pair<std::int32_t, std::int32_t>;

std::map<UnitMicroBatch, std::int32_t> gradient_buffers(const Program& program) {
  std::map<UnitMicroBatch, std::int32_t> buffers;
  for (const Operation& op : program.operations) {
    if (op.kind == OpKind::Backward) buffers[{op.unit, op.micro_batch}] = op.gradient_buffer;
  }
  return buffers;
}

void mark_micro_batches(const Program& program, std::vector<ComputeBinding>& bindings) {
  std::map<std::int32_t, std::size_t> last;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if (!is_unit_phase(op)) continue;
    const bool first = last.insert_or_assign(op.micro_batch, i).second;
    bindings[i].begins_micro_batch = first;
  }
  for (const auto& [micro_batch, operation] : last) bindings[operation].ends_micro_batch = true;
}

/// Marks the outputs that go to the host, and the operations that free and allocate outputs beside
/// their own.
void mark_outputs(const Program& program, std::vector<ComputeBinding>& bindings) {
  std::set<std::int32_t> leaving;
  for (const Operation& op : program.operations) {
    if (op.kind == OpKind::OutputD2H) leaving.insert(op.unit);
  }
  const std::vector<UnitOutput> owners = output_owners(program);
  const auto other_output = [&](const std::vector<std::int32_t>& buffers, const UnitOutput& own) {
    for (const std::int32_t buffer : buffers) {
      const UnitOutput& output = owners.at(buffer);
      if (output.unit >= 0 && output != own) return output;
    }
    return UnitOutput{};
  };
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if (!is_unit_phase(op)) continue;
    const bool forward = op.kind == OpKind::Forward;
    bindings[i].output_leaves = forward && leaving.contains(op.unit);
    // A forward's own output is in its hands, and backward frees its input by itself.
    const UnitOutput own{op.unit, op.member};
    bindings[i].takes_output = other_output(op.allocates, forward ? own : UnitOutput{});
    bindings[i].drops_output = forward ? other_output(op.frees, own) : UnitOutput{};
  }
}

std::vector<std::int32_t> units_read(const Architecture& architecture, const Program& program,
                                     std::int32_t unit) {
  std::vector<std::int32_t> units;
  if (program.layouts.at(unit).held_elements > 0) units.push_back(unit);
  for (const Borrow& borrow : architecture.units.at(unit).borrows) {
    if (std::find(units.begin(), units.end(), borrow.unit) == units.end()) {
      units.push_back(borrow.unit);
    }
  }
  return units;
}

}  // namespace

std::vector<ComputeBinding> bind_compute_operations(const Architecture& architecture,
                                                    const Program& program) {
  std::vector<ComputeBinding> bindings(program.operations.size());
  mark_micro_batches(program, bindings);
  mark_outputs(program, bindings);
  const auto buffers = gradient_buffers(program);
  // A unit is gathered again only after its last use in the old slot. An operation therefore finds
  // its parameters in the slot that was gathered last in program order.
  std::vector<std::int32_t> slots(program.layouts.size(), -1);
  std::set<UnitMicroBatch> cleared;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if ((op.kind == OpKind::Gather || op.kind == OpKind::Fetch) && op.slot >= 0) {
      slots.at(op.unit) = op.slot;
    }
    if (!is_unit_phase(op)) continue;
    for (const std::int32_t unit : units_read(architecture, program, op.unit)) {
      UnitBinding binding{.unit = unit, .slot = slots.at(unit)};
      if (op.kind == OpKind::Backward) {
        binding.gradient_buffer = buffers.at({unit, op.micro_batch});
        binding.clear_gradients = cleared.insert({unit, op.micro_batch}).second;
      }
      bindings[i].units.push_back(binding);
    }
  }
  return bindings;
}

}  // namespace athanor
