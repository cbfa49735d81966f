// SPDX-License-Identifier: Apache-2.0
// Shows a plan, the program that it is lowered to, and where its memory goes.
#include "cli/common/plan_paths.hpp"
#include "cli/sim/inputs.hpp"
#include "cli/sim/program_json.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/show.hpp"
#include "sim/base/errors.hpp"
#include "sim/cost/costs.hpp"
#include "sim/formats/files.hpp"
#include "sim/interchange/chakra_trace.hpp"
#include "sim/interchange/export_plan.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace athanor::cli {
namespace {

/// Returns the path that `option` gave, else the path that the plan names.
std::string input_path(const ShowRequest& request, const std::string& option,
                       const std::string& given, const std::string& stored) {
  if (!given.empty()) return given;
  require_option(!stored.empty(), option, "The plan does not say what it was made from.");
  return resolved_path(stored, request.file);
}

Program lowered(const ShowRequest& request, const Plan& plan) {
  const Profile profile =
      read_profile(input_path(request, "--profile", request.profile_path, plan.profile_path));
  plan.validate(profile.architecture, request.file);
  return lower(profile, plan);
}

void print_chakra(const ShowRequest& request, const Plan& plan, const Program& program) {
  if (isatty(STDOUT_FILENO) == 1) {
    throw InputError("--as chakra", "is binary, and stdout is a terminal",
                     "Write it to a file: > step.0.et");
  }
  const Platform platform =
      read_platform(input_path(request, "--platform", request.platform_path, plan.platform_path));
  fmt::print("{}", chakra_trace(program, solo_seconds(program, platform)));
}

std::string runs_text(const UnitPlan& unit) {
  std::string text;
  for (const ChunkRun& run : unit.chunks) {
    text += fmt::format("{}{} x (parameters {}, optimizer {})", text.empty() ? "" : ", ", run.count,
                        name_of(kHomeNames, run.parameters), name_of(kHomeNames, run.optimizer));
  }
  return text.empty() ? "no parameters" : text;
}

std::string unit_text(const UnitPlan& unit) {
  std::string text = fmt::format("{:<18} {:<10} {}", name_of(kShardingNames, unit.sharding),
                                 name_of(kActivationNames, unit.activation), runs_text(unit));
  if (unit.pattern != &weights_travel()) {
    text += fmt::format(", {}", unit.pattern->phrase());
    if (unit.capacity > 0) text += fmt::format(", capacity {}", unit.capacity);
  }
  return text;
}

/// Returns the end of the texts from `first` on that repeat every `step` texts.
std::size_t end_of_repeats(const std::vector<std::string>& texts, std::size_t first,
                           std::size_t step) {
  std::size_t end = std::min(first + step, texts.size());
  while (end < texts.size() && texts[end] == texts[end - step]) ++end;
  return end;
}

/// Prints the units of a plan. Equal neighbours share a line, and so do units of pairs that repeat:
/// the two of a split block.
void print_units(const Plan& plan) {
  std::vector<std::string> texts;
  for (const UnitPlan& unit : plan.units) texts.push_back(unit_text(unit));
  const auto print = [&](const std::string& units, std::size_t unit) {
    fmt::print("{:<16} {}\n", units, texts[unit]);
  };
  for (std::size_t first = 0, end = 0; first < texts.size(); first = end) {
    end = end_of_repeats(texts, first, 1);
    const std::size_t pairs = first + (end_of_repeats(texts, first, 2) - first) / 2 * 2;
    if (end == first + 1 && pairs >= first + 4) {
      end = pairs;
      print(fmt::format("units {},{}..{}", first, first + 2, end - 2), first);
      print(fmt::format("units {},{}..{}", first + 1, first + 3, end - 1), first + 1);
    } else {
      print(end == first + 1 ? fmt::format("unit {}", first)
                             : fmt::format("units {}-{}", first, end - 1),
            first);
    }
  }
}

/// Returns the group of a buffer: "parameters block.7" belongs to the group "parameters".
std::string group_of(const Buffer& buffer) { return buffer.name.substr(0, buffer.name.rfind(' ')); }

std::map<std::pair<Tier, std::string>, Bytes> grouped_static_bytes(const Program& program) {
  std::map<std::pair<Tier, std::string>, Bytes> groups;
  for (const Buffer& buffer : program.static_buffers) {
    groups[{buffer.tier, group_of(buffer)}] += buffer.bytes;
  }
  return groups;
}

/// Returns the operation of the compute lane during which device memory peaks.
MemoryPoint highest_point(const Program& program) {
  const std::vector<MemoryPoint> points = device_memory_profile(program);
  if (points.empty()) return {};
  return *std::max_element(
      points.begin(), points.end(),
      [](const MemoryPoint& a, const MemoryPoint& b) { return a.peak < b.peak; });
}

void print_memory(const Program& program) {
  const TierBytes peak = peak_bytes(program);
  const MemoryPoint highest = highest_point(program);
  Bytes static_gpu = 0;
  fmt::print("{:<8} {:<24} {:>12}\n", "tier", "held for", "per rank");
  for (const auto& [key, bytes] : grouped_static_bytes(program)) {
    fmt::print("{:<8} {:<24} {:>12}\n", name_of(kTierNames, key.first), key.second,
               format_bytes(bytes));
    if (key.first == Tier::Gpu) static_gpu += bytes;
  }
  fmt::print("{:<8} {:<24} {:>12}   at {}\n\n", "gpu", "activations, at the peak",
             format_bytes(peak.gpu - static_gpu),
             program.operations.empty() ? "-" : program.name(highest.operation));
  std::string text;
  for (const Tier tier : kTiers) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(kTierNames, tier),
                        format_bytes(bytes_of(peak, tier)));
  }
  fmt::print("peak per rank: {}\n", text);
}

using Export = ExportedPlan (*)(const Plan&);
constexpr NameTable<Export, 3> kExports{{{"deepspeed", export_deepspeed},
                                         {"accelerate", export_accelerate},
                                         {"torchtitan", export_torchtitan}}};

void print_export(const Plan& plan, Export exporter, const std::string& form) {
  const ExportedPlan exported = exporter(plan);
  fmt::print("{}", exported.text);
  for (const std::string& line : exported.lost) {
    fmt::print(stderr, "athanor-sim: note: not in {}: {}\n", form, line);
  }
}

}  // namespace

nlohmann::ordered_json memory_json(const Program& program) {
  const MemoryPoint highest = highest_point(program);
  nlohmann::ordered_json json;
  json["peak_bytes"] = peak_json(peak_bytes(program));
  json["peak_operation"] = program.operations.empty() ? "" : program.name(highest.operation);
  for (const Tier tier : kTiers) {
    json["static_bytes"][std::string(name_of(kTierNames, tier))] = nlohmann::ordered_json::object();
  }
  for (const auto& [key, bytes] : grouped_static_bytes(program)) {
    json["static_bytes"][std::string(name_of(kTierNames, key.first))][key.second] = bytes;
  }
  return json;
}

void show_plan(const ShowRequest& request) {
  const Plan plan = read_plan(request.file);
  if (const auto exporter = value_of(kExports, request.form)) {
    return print_export(plan, *exporter, request.form);
  }
  if (request.json()) return print_json(nlohmann::ordered_json::parse(to_json(plan)));
  fmt::print("{:<12} {}: {}\n", "plan", plan.name, plan_summary(plan));
  fmt::print("{:<12} {} ranks, {} sequences of {} per step, {}\n", "step", plan.world_size,
             plan.global_batch(), plan.sequence_length, name_of(kDataTypeNames, plan.dtype));
  fmt::print("{:<12} {}\n", "clipping", name_of(kClippingNames, plan.clipping));
  if (plan.adam_state != AdamState::Float32) {
    fmt::print("{:<12} {}\n", "adam state", name_of(kAdamStateNames, plan.adam_state));
  }
  if (!plan.deterministic) fmt::print("{:<12} off\n", "deterministic");
  if (plan.cuda_graphs) fmt::print("{:<12} on\n", "cuda graphs");
  if (plan.snapshot != Snapshot::None) {
    const std::string copy = plan.snapshot_copies > 1
                                 ? fmt::format(", each with a copy on another node, sends {}",
                                               name_of(kSnapshotSendNames, plan.snapshot_send))
                                 : std::string();
    const std::string every =
        plan.snapshot_every > 1 ? fmt::format(", one in {} steps", plan.snapshot_every) : "";
    fmt::print("{:<12} {}{}{}\n", "snapshot", name_of(kSnapshotNames, plan.snapshot), every, copy);
  }
  if (plan.schedule != Schedule{}) {
    fmt::print("{:<12} copies {}, optimizer {}, optimizer lanes {}, eviction {}\n", "schedule",
               name_of(kCopiesNames, plan.schedule.copies),
               name_of(kOptimizerStartNames, plan.schedule.optimizer),
               name_of(kOptimizerLanesNames, plan.schedule.optimizer_lanes),
               name_of(kEvictionNames, plan.schedule.eviction));
  }
  if (plan.prediction) {
    fmt::print("{:<12} {}, gpu {}\n", "predicted", format_seconds(plan.prediction->step_seconds),
               format_bytes(plan.prediction->peak_bytes.gpu));
  }
  print_units(plan);
}

void show_memory(const ShowRequest& request) {
  const Program program = lowered(request, read_plan(request.file));
  if (request.json()) return print_json(memory_json(program));
  print_memory(program);
}

void show_program(const ShowRequest& request) {
  const Plan plan = read_plan(request.file);
  const Program program = lowered(request, plan);
  if (request.form == "chakra") return print_chakra(request, plan, program);
  if (request.json()) return print_json(program_json(program));
  fmt::print("{}", program_text(program));
}

}  // namespace athanor::cli
