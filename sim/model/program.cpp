// SPDX-License-Identifier: Apache-2.0
#include "sim/model/program.hpp"

#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

namespace athanor {

const char* op_kind_name(OpKind kind) noexcept { return name_of(kOpKindNames, kind).data(); }

std::string Program::name(std::int32_t operation) const {
  const Operation& op = operations[static_cast<std::size_t>(operation)];
  std::string text = op_kind_name(op.kind);
  if (op.unit >= 0) text += " " + unit_names[static_cast<std::size_t>(op.unit)];
  if (op.chunk >= 0) text += fmt::format(" chunk {}", op.chunk);
  if (op.micro_batch >= 0) text += fmt::format(" micro-batch {}", op.micro_batch);
  if (op.stages > 1) text += fmt::format(" stage {}", op.stage);
  return text + fmt::format(" #{}", operation);
}

std::vector<UnitOutput> output_owners(const Program& program) {
  std::vector<UnitOutput> owners(program.buffers.size());
  for (const Operation& op : program.operations) {
    if (op.kind != OpKind::Forward || op.keep || !ends_phase(op)) continue;
    owners[static_cast<std::size_t>(op.allocates.back())] = {op.unit, op.member};
  }
  return owners;
}

}  // namespace athanor
