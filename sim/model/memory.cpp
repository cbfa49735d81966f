// SPDX-License-Identifier: Apache-2.0
#include "sim/model/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace athanor {
namespace {

TierBytes static_bytes(const Program& program) {
  TierBytes total;
  total.gpu = program.workspace_bytes + program.graph_bytes;
  for (const Buffer& buffer : program.static_buffers) bytes_of(total, buffer.tier) += buffer.bytes;
  return total;
}

Bytes sum_of(const Program& program, const std::vector<std::int32_t>& buffers) {
  Bytes total = 0;
  for (const std::int32_t index : buffers) {
    const Buffer& buffer = program.buffers[static_cast<std::size_t>(index)];
    assert(buffer.tier == Tier::Gpu && "only device memory is allocated within a step");
    total += buffer.bytes;
  }
  return total;
}

std::string overflow(const char* tier, Bytes need, Bytes limit) {
  return fmt::format("{} needs {} of {} ({} too much)", tier, format_bytes(need),
                     format_bytes(limit), format_bytes(need - limit));
}

}  // namespace

std::vector<MemoryPoint> device_memory_profile(const Program& program) {
  std::vector<MemoryPoint> points;
  Bytes level = static_bytes(program).gpu;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if (op.lane != Lane::Compute) continue;
    const Bytes peak = level + op.peak_bytes;
    level += sum_of(program, op.allocates) - sum_of(program, op.frees);
    points.push_back({static_cast<std::int32_t>(i), std::max(peak, level), level});
  }
  return points;
}

TierBytes peak_bytes(const Program& program) {
  TierBytes peak = static_bytes(program);
  for (const MemoryPoint& point : device_memory_profile(program)) {
    peak.gpu = std::max(peak.gpu, point.peak);
  }
  return peak;
}

std::vector<std::string> memory_overflows(const TierBytes& peak, int ranks_per_node,
                                          const MemoryLimits& limits) {
  std::vector<std::string> overflows;
  const auto check = [&](const char* tier, Bytes need, Bytes limit) {
    if (excess_bytes(need, limit) > 0) overflows.push_back(overflow(tier, need, limit));
  };
  check("gpu memory", peak.gpu, limits.gpu);
  check("host memory", node_host_bytes(peak, ranks_per_node), limits.host);
  check("nvme", node_nvme_bytes(peak, ranks_per_node), limits.nvme);
  return overflows;
}

}  // namespace athanor
