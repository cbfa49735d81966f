// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/kernel_table.hpp"

#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace athanor::cli {
namespace {

constexpr double kTera = 1e12;

Seconds total_seconds(const PhaseCost& phase) {
  Seconds total = 0;
  for (const KernelCost& kernel : phase.kernels) total += kernel.seconds;
  return total;
}

std::string rate(double amount, Seconds seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.3g}", amount / seconds / kTera) : "-";
}

std::string rows(const UnitCost& cost, const char* phase_name, const PhaseCost& phase) {
  const Seconds all = total_seconds(phase);
  if (all <= 0) return "";
  std::string text =
      fmt::format("{} {}, micro-batch {}: {} in kernels, {} in all\n", cost.unit_class, phase_name,
                  cost.micro_batch, format_seconds(all), format_seconds(phase.seconds));
  for (const KernelCost& kernel : phase.kernels) {
    text += fmt::format("  {:<14} {:>6.4g} {:>10} {:>6.1f} {:>9} {:>6}  {}\n",
                        name_of(kKernelClassNames, kernel.kind), kernel.count,
                        format_seconds(kernel.seconds), 100 * kernel.seconds / all,
                        rate(kernel.flops, kernel.seconds), rate(kernel.bytes, kernel.seconds),
                        kernel.name);
  }
  return text;
}

bool has_kernels(const UnitCost& cost) {
  return !cost.forward_keep.kernels.empty() || !cost.backward.kernels.empty();
}

std::int64_t largest_traced(const Profile& profile) {
  std::int64_t largest = 0;
  for (const UnitCost& cost : profile.costs) {
    if (has_kernels(cost)) largest = std::max(largest, cost.micro_batch);
  }
  return largest;
}

}  // namespace

std::string kernel_table(const Profile& profile) {
  const std::int64_t micro_batch = largest_traced(profile);
  if (micro_batch == 0) return "";
  std::string text = fmt::format("  {:<14} {:>6} {:>10} {:>6} {:>9} {:>6}  {}\n", "kernels",
                                 "count", "time", "%", "TFLOP/s", "TB/s", "name");
  for (const UnitCost& cost : profile.costs) {
    if (cost.micro_batch != micro_batch) continue;
    text += rows(cost, "forward", cost.forward_keep) + rows(cost, "backward", cost.backward);
  }
  return text;
}

}  // namespace athanor::cli
