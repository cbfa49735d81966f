// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/describe.hpp"

#include <fmt/format.h>

#include <iterator>
#include <string>

namespace athanor {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr double kGiga = 1e9;

/// Writes the rate at the largest size and the time at the smallest.
void add_curve(Out out, const std::string& name, const Curve& curve, const char* unit) {
  if (curve.points.empty()) {
    return;
  }
  const Curve::Point& smallest = curve.points.front();
  const Curve::Point& largest = curve.points.back();
  const double relative = largest.seconds > 0 ? 100 * largest.spread / largest.seconds : 0;
  fmt::format_to(out, "  {:<28} {:>9.3f} {:<12} spread {:>4.1f} %   smallest {}\n", name,
                 largest.size / largest.seconds / kGiga, unit, relative,
                 format_seconds(smallest.seconds));
}

void add_collectives(Out out, const std::string& name, const std::vector<CollectiveCurve>& curves) {
  for (const CollectiveCurve& entry : curves) {
    add_curve(out, fmt::format("{}, {} rank(s)", name, entry.world_size), entry.curve, "GB/s");
  }
}

void add_network(Out out, const Network& network) {
  for (const LinkCurve& link : network.links) {
    add_curve(out, fmt::format("to a node, {} rank(s) each", link.ranks), link.curve, "GB/s");
  }
}

void add_contention(Out out, const Platform& platform) {
  for (const SharedResource& resource : platform.shared) {
    fmt::format_to(out, "  {:<28} {:>9.2f} activities at full speed\n", "shared " + resource.name,
                   resource.capacity);
  }
  for (const ContentionSample& sample : platform.contention) {
    fmt::format_to(out, "  {:<28}", sample_name(sample));
    for (const auto& [lane, slowdown] : sample.slowdown) {
      fmt::format_to(out, " {} x {:.3f}", lane_name(lane), slowdown);
    }
    fmt::format_to(out, "\n");
  }
}

}  // namespace

std::string describe(const Platform& platform) {
  std::string text;
  const Out out = std::back_inserter(text);
  if (platform.network) fmt::format_to(out, "{} nodes, each with\n", platform.network->max_nodes);
  fmt::format_to(out, "{}: {} rank(s) with {} each\n", platform.name, platform.num_devices,
                 format_bytes(platform.device_memory));
  fmt::format_to(out, "  {:<28} {:>9.1f} GFLOP/s\n", "matrix products",
                 platform.matmul_flops_per_second / kGiga);
  add_curve(out, "h2d", platform.h2d, "GB/s");
  add_curve(out, "d2h", platform.d2h, "GB/s");
  add_curve(out, "d2h that adds", platform.d2h_add, "GB/s");
  add_collectives(out, "all-gather", platform.all_gather);
  add_collectives(out, "reduce-scatter", platform.reduce_scatter);
  add_collectives(out, "all-reduce", platform.all_reduce);
  add_collectives(out, "all-to-all", platform.all_to_all);
  for (const auto& [threads, curve] : platform.cpu_adam) {
    add_curve(out, fmt::format("AdamW, {} thread(s)", threads), curve, "G elements/s");
  }
  for (const auto& [threads, curve] : platform.cpu_adam_beside) {
    add_curve(out, fmt::format("AdamW beside, {} thread(s)", threads), curve, "G elements/s");
  }
  add_curve(out, "device AdamW", platform.device_adam, "G elements/s");
  add_curve(out, "square sum", platform.host_square_sum, "G elements/s");
  add_curve(out, "file read", platform.file_read, "GB/s");
  add_curve(out, "file write", platform.file_write, "GB/s");
  if (platform.network) add_network(out, *platform.network);
  add_contention(out, platform);
  return text;
}

}  // namespace athanor
