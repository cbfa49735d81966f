// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/trace_names.hpp"

#include <cstdint>

namespace athanor {
namespace {

/// Name of the kernel or copy that `op` stands for; empty for computation and files.
const char* kernel_name(const Operation& op) {
  switch (op.lane) {
    case Lane::H2D:
      return "Memcpy HtoD (Pinned -> Device) ";
    case Lane::D2H:
      return "Memcpy DtoH (Device -> Pinned) ";
    case Lane::Collective:
      if (op.own) return "";
      if (op.kind == OpKind::ActivationReduce) return "ncclDevKernel_ReduceScatter_Sum ";
      if (op.kind == OpKind::ActivationGather) return "ncclDevKernel_AllGather ";
      if (is_exchange(op)) return "ncclDevKernel_SendRecv ";
      if (op.kind != OpKind::Reduce) return "ncclDevKernel_AllGather ";
      return op.all_reduce ? "ncclDevKernel_AllReduce_Sum " : "ncclDevKernel_ReduceScatter_Sum ";
    case Lane::Compute:
    case Lane::CpuAdam:
    case Lane::NvmeRead:
    case Lane::NvmeWrite:
      break;
  }
  return "";
}

}  // namespace

std::vector<std::string> trace_names(const Program& program) {
  std::vector<std::string> names;
  names.reserve(program.operations.size());
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    names.push_back(kernel_name(program.operations[i]) +
                    program.name(static_cast<std::int32_t>(i)));
  }
  return names;
}

}  // namespace athanor
