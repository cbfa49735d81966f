// SPDX-License-Identifier: Apache-2.0
// Shows the inputs of plans: models, platforms and profiles.
#include "cli/sim/kernel_table.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/show.hpp"
#include "sim/base/printable.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/interchange/export_simgrid.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/model/language_models.hpp"
#include "sim/rates/pooled_looks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace athanor::cli {
namespace {

/// Units of one class, counted together.
struct UnitGroup {
  std::string name, unit_class;
  std::int64_t count = 0, parameters = 0;
  double flops_per_token = 0;
};

std::vector<UnitGroup> unit_groups(const Architecture& architecture) {
  std::vector<UnitGroup> groups;
  for (const Unit& unit : architecture.units) {
    auto group = std::ranges::find(groups, unit.unit_class, &UnitGroup::unit_class);
    if (group == groups.end()) {
      groups.push_back(
          {unit.name, unit.unit_class, 0, unit.num_elements(), unit.forward_flops_per_token});
      group = std::prev(groups.end());
    }
    ++group->count;
  }
  return groups;
}

nlohmann::ordered_json model_json(const Architecture& architecture) {
  nlohmann::ordered_json json;
  json["name"] = architecture.name;
  json["num_parameters"] = architecture.num_parameters();
  if (architecture.known_sizes) json["sizes_of"] = architecture.known_sizes->class_name;
  json["units"] = nlohmann::ordered_json::array();
  for (const Unit& unit : architecture.units) {
    json["units"].push_back({{"name", unit.name},
                             {"unit_class", unit.unit_class},
                             {"num_parameters", unit.num_elements()},
                             {"forward_flops_per_token", unit.forward_flops_per_token}});
  }
  return json;
}

void print_known_sizes(const KnownSizes& known) {
  fmt::print("\nathanor knows the sizes of '{}' ({} of transformers), and {}.\n", known.model_type,
             known.class_name,
             known.can_be_traced()
                 ? "trains it through units traced from transformers: trace it with `athanor trace`"
                 : "cannot train it");
}

void print_curve(std::string_view name, const Curve& curve) {
  if (curve.points.empty()) return;
  const Curve::Point& last = curve.points.back();
  fmt::print("{:<24} {:>3} points, up to {:.4g} in {}: {:.4g} per second\n", name,
             curve.points.size(), last.size, format_seconds(last.seconds),
             last.seconds > 0 ? last.size / last.seconds : 0);
}

void print_collectives(std::string_view name, const std::vector<CollectiveCurve>& curves) {
  for (const CollectiveCurve& curve : curves) {
    print_curve(fmt::format("{} x {}", name, curve.world_size), curve.curve);
  }
}

void print_network(const Network& network) {
  fmt::print("{:<24} {} per node, {:.4g} bytes per second each way, {} a hop; up to {} nodes\n",
             "network", network.nics == 1 ? "1 NIC" : fmt::format("{} NICs", network.nics),
             network.bytes_per_second, format_seconds(network.latency), network.max_nodes);
}

void print_provenance(const Provenance& provenance) {
  fmt::print("{:<24} {} {}\n", "source", name_of(kSourceNames, provenance.source), provenance.date);
  if (!provenance.notes.empty()) fmt::print("{:<24} {}\n", "notes", printable(provenance.notes));
}

void print_platform(const Platform& p) {
  fmt::print("{:<24} {}\n{:<24} {} x {} ({})\n", "platform", p.name, "devices", p.num_devices,
             p.device, p.backend);
  fmt::print("{:<24} {}\n{:<24} {}\n{:<24} {}\n", "device memory", format_bytes(p.device_memory),
             "host memory", format_bytes(p.host_memory), "host cores", p.host_cores);
  if (!p.processor.empty()) fmt::print("{:<24} {}\n", "processor", printable(p.processor));
  fmt::print("{:<24} {:.4g} per second\n", "matrix FLOPs", p.matmul_flops_per_second);
  print_curve("h2d bytes", p.h2d);
  print_curve("d2h bytes", p.d2h);
  print_collectives("all-gather bytes", p.all_gather);
  print_collectives("reduce-scatter bytes", p.reduce_scatter);
  print_collectives("all-reduce bytes", p.all_reduce);
  if (p.all_to_all.empty() && p.num_devices > 1) {
    fmt::print("{:<24} not measured: as long as an all-gather of a buffer of that size\n",
               "all-to-all bytes");
  }
  print_collectives("all-to-all bytes", p.all_to_all);
  for (const auto& [threads, curve] : p.cpu_adam) {
    print_curve(fmt::format("cpu adam x {} elements", threads), curve);
  }
  print_curve("device adam elements", p.device_adam);
  for (const SharedResource& resource : p.shared) {
    fmt::print("{:<24} {}: {:.4g} per second, one per {}\n", "shared", resource.name,
               resource.capacity, name_of(kScopeNames, resource.scope));
  }
  for (const ContentionSample& load : p.contention) {
    std::string slowdowns;
    for (const auto& [lane, slowdown] : load.slowdown) {
      slowdowns +=
          fmt::format("{}{} x {:.3f}", slowdowns.empty() ? "" : ", ", lane_name(lane), slowdown);
    }
    fmt::print("{:<24} {}: {}\n", "at once", sample_name(load), slowdowns);
  }
  if (p.network) print_network(*p.network);
  for (const std::string& line : pooled_lines(p)) fmt::print("{:<24} {}\n", "pooled", line);
  print_provenance(p.provenance);
}

void print_profile(const Profile& p) {
  fmt::print("{:<24} {} ({} parameters)\n{:<24} {}\n", "model", p.architecture.name,
             p.architecture.num_parameters(), "device", p.device);
  fmt::print("{:<24} {}\n{:<24} {}\n", "element type", name_of(kDataTypeNames, p.dtype),
             "sequence length", p.sequence_length);
  fmt::print("\n{:<14} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "unit class", "batch",
             "forward", "recompute", "backward", "saved", "output");
  for (const UnitCost& cost : p.costs) {
    fmt::print("{:<14} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10}\n", cost.unit_class,
               cost.micro_batch, format_seconds(cost.forward_keep.seconds),
               format_seconds(cost.recompute.seconds), format_seconds(cost.backward.seconds),
               format_bytes(cost.saved_bytes), format_bytes(cost.output_bytes));
    if (const auto &forward = cost.forward_keep.replay, &backward = cost.backward.replay;
        forward && backward) {
      fmt::print("  {:<19} {:>10} {:>10} {:>10}\n", "as CUDA graphs",
                 format_seconds(forward->seconds), "", format_seconds(backward->seconds));
    }
    if (!cost.nondeterministic_backward) continue;
    fmt::print("  {:<19} {:>10} {:>10} {:>10}\n", "not deterministic", "", "",
               format_seconds(cost.nondeterministic_backward->seconds));
  }
  fmt::print("\n");
  if (const std::string kernels = kernel_table(p); !kernels.empty()) fmt::print("{}\n", kernels);
  print_provenance(p.provenance);
}

}  // namespace

void show_model(const ShowRequest& request) {
  Architecture architecture = load_architecture(request.file);
  if (request.split_blocks) architecture = with_blocks(architecture, Blocks::Split);
  if (request.json()) return print_json(model_json(architecture));
  fmt::print("{}: {} parameters in {} units\n\n", architecture.name, architecture.num_parameters(),
             architecture.units.size());
  fmt::print("{:<16} {:<16} {:>6} {:>14} {:>16}\n", "from unit", "class", "units", "parameters",
             "FLOPs per token");
  for (const UnitGroup& group : unit_groups(architecture)) {
    fmt::print("{:<16} {:<16} {:>6} {:>14} {:>16.4g}\n", group.name, group.unit_class, group.count,
               group.parameters, group.flops_per_token);
  }
  if (architecture.known_sizes) print_known_sizes(*architecture.known_sizes);
}

void show_platform(const ShowRequest& request) {
  const Platform platform = read_platform(request.file);
  if (request.json()) return print_json(nlohmann::ordered_json::parse(to_json(platform)));
  if (request.form == "simgrid-xml") return fmt::print("{}", export_simgrid(platform));
  print_platform(platform);
}

void show_profile(const ShowRequest& request) {
  const Profile profile = read_profile(request.file);
  if (request.json()) return print_json(nlohmann::ordered_json::parse(to_json(profile)));
  print_profile(profile);
}

}  // namespace athanor::cli
