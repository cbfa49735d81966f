// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/whole_master.hpp"

#include "sim/lowering/static_memory.hpp"

#include <algorithm>

namespace athanor::test {
namespace {

constexpr Bytes kMoreBytes = 2;  // an element: 4 of a whole master instead of 2 of its lower half

/// Elements whose state a buffer on the device holds.
std::int64_t elements_in(const Buffer& buffer, const Program& program) {
  if (buffer.tier != Tier::Gpu) return 0;
  if (buffer.name.starts_with("optimizer ")) {
    return buffer.bytes / optimizer_state_bytes(1, program.dtype, program.adam_state);
  }
  if (buffer.name != "stream buffers") return 0;
  return buffer.bytes / stream_bytes(1, program).read;
}

void add_to_device_memory(Program& program) {
  Bytes device = 0;
  std::erase_if(program.static_buffers, [](const Buffer& b) { return b.name == "alignment"; });
  for (Buffer& buffer : program.static_buffers) {
    buffer.bytes += kMoreBytes * elements_in(buffer, program);
    if (buffer.tier == Tier::Gpu) device += buffer.bytes;
  }
  program.static_buffers.push_back({"alignment", Tier::Gpu, device_blocks(device) - device});
}

/// Whether bf16 parameters lie beside their state in its file.
bool parameters_in_file(const Program& program, const Operation& op) {
  const auto unit = static_cast<std::size_t>(op.unit);
  const auto chunk = static_cast<std::size_t>(op.chunk);
  return program.layouts[unit].chunks[chunk].parameters == Home::Nvme;
}

void add_to_transfers(Program& program) {
  std::int64_t elements = 0;  // that the update of the transfer has
  for (auto op = program.operations.rbegin(); op != program.operations.rend(); ++op) {
    if (op->kind == OpKind::Adam) elements = op->elements;
    if (op->kind == OpKind::StateRead && op->lane == Lane::NvmeRead) {
      // Parameters were not read: the whole master was.
      if (!parameters_in_file(program, *op)) op->bytes += file_blocks(kMoreBytes * elements);
    }
  }
  for (Operation& op : program.operations) {
    if (op.kind == OpKind::Adam) elements = op.elements;
    if (op.kind != OpKind::StateWrite) continue;
    op.bytes += op.lane == Lane::D2H ? kMoreBytes * elements : file_blocks(kMoreBytes * elements);
  }
}

}  // namespace

Program with_whole_masters(Program program) {
  if (program.dtype != DataType::BFloat16) return program;
  add_to_device_memory(program);
  add_to_transfers(program);
  return program;
}

}  // namespace athanor::test
