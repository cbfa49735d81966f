// SPDX-License-Identifier: Apache-2.0
// athanor.profile/3, and /1 and /2 where they are read (see traces/README.md).
#include "sim/formats/files.hpp"
#include "sim/formats/json_writer.hpp"

namespace athanor {
namespace {

OrderedJson json_of(const KernelCost& kernel) {
  return {{"name", kernel.name},   {"class", name_of(kKernelClassNames, kernel.kind)},
          {"count", kernel.count}, {"seconds", kernel.seconds},
          {"flops", kernel.flops}, {"bytes", kernel.bytes}};
}

KernelCost read_kernel(JsonReader json) {
  KernelCost kernel;
  kernel.name = json.key("name").name();
  kernel.kind = json.key("class").choice(kKernelClassNames);
  kernel.count = json.key("count").number();
  kernel.seconds = json.key("seconds").number();
  kernel.flops = json.key("flops").number();
  kernel.bytes = json.key("bytes").number();
  json.reject_other_keys();
  return kernel;
}

OrderedJson json_of(const ReplayCost& replay) {
  return {{"seconds", replay.seconds},
          {"issue_seconds", replay.issue_seconds},
          {"graph_bytes", replay.graph_bytes}};
}

ReplayCost read_replay(JsonReader json) {
  ReplayCost replay;
  replay.seconds = json.key("seconds").number();
  replay.issue_seconds = json.key("issue_seconds").number();
  replay.graph_bytes = json.key("graph_bytes").integer(0);
  json.reject_other_keys();
  return replay;
}

OrderedJson json_of(const PhaseCost& phase) {
  OrderedJson json{{"seconds", phase.seconds},
                   {"spread", phase.spread},
                   {"peak_bytes", phase.peak_bytes},
                   {"issue_seconds", phase.issue_seconds}};
  if (phase.watts > 0) {
    json["unthrottled_seconds"] = phase.unthrottled_seconds;
    json["watts"] = phase.watts;
  }
  for (const KernelCost& kernel : phase.kernels) json["kernels"].push_back(json_of(kernel));
  if (phase.replay) json["replay"] = json_of(*phase.replay);
  return json;
}

PhaseCost read_phase(JsonReader json, int version) {
  PhaseCost phase;
  phase.seconds = json.key("seconds").number();
  phase.spread = json.key("spread").number();
  phase.peak_bytes = json.key("peak_bytes").integer(0);
  phase.issue_seconds = json.key("issue_seconds").number();
  if (const auto seconds =
          json.optional_key(version == 1 ? "full_clock_seconds" : "unthrottled_seconds")) {
    phase.unthrottled_seconds = seconds->number();
  }
  if (const auto watts = json.optional_key("watts")) phase.watts = watts->number();
  if (const auto kernels = json.optional_key("kernels")) {
    for (const JsonReader& kernel : kernels->items()) phase.kernels.push_back(read_kernel(kernel));
  }
  if (const auto replay = json.optional_key("replay")) phase.replay = read_replay(*replay);
  json.reject_other_keys();
  return phase;
}

OrderedJson json_of(const StagedPhase& phase) {
  OrderedJson stages = OrderedJson::array();
  for (const PhaseCost& stage : phase.stages) stages.push_back(json_of(stage));
  return {{"stages", std::move(stages)}, {"held", phase.held}};
}

StagedPhase read_staged_phase(JsonReader json, int version) {
  StagedPhase phase;
  for (const JsonReader& stage : json.key("stages").items()) {
    phase.stages.push_back(read_phase(stage, version));
  }
  for (const JsonReader& bytes : json.key("held").items()) phase.held.push_back(bytes.integer(0));
  json.reject_other_keys();
  return phase;
}

/// Adds the phases of a UnitCost or a StagedCost, and the memory that stays.
template <typename Cost>
void add_phases(OrderedJson& json, const Cost& cost) {
  json["forward_keep"] = json_of(cost.forward_keep);
  json["forward_discard"] = json_of(cost.forward_discard);
  json["recompute"] = json_of(cost.recompute);
  json["backward"] = json_of(cost.backward);
  if (cost.nondeterministic_backward) {
    json["nondeterministic_backward"] = json_of(*cost.nondeterministic_backward);
  }
  json["output_bytes"] = cost.output_bytes;
  json["saved_bytes"] = cost.saved_bytes;
  json["grad_input_bytes"] = cost.grad_input_bytes;
}

/// Reads what add_phases() adds. `read` reads one phase.
template <typename Cost, typename Read>
void read_phases(JsonReader& json, Cost& cost, const Read& read) {
  cost.forward_keep = read(json.key("forward_keep"));
  cost.forward_discard = read(json.key("forward_discard"));
  cost.recompute = read(json.key("recompute"));
  cost.backward = read(json.key("backward"));
  if (const auto backward = json.optional_key("nondeterministic_backward")) {
    cost.nondeterministic_backward = read(*backward);
  }
  cost.output_bytes = json.key("output_bytes").integer(0);
  cost.saved_bytes = json.key("saved_bytes").integer(0);
  cost.grad_input_bytes = json.key("grad_input_bytes").integer(0);
}

OrderedJson json_of(const StagedCost& cost) {
  OrderedJson json{
      {"pattern", cost.pattern}, {"world_size", cost.world_size}, {"capacity", cost.capacity}};
  add_phases(json, cost);
  return json;
}

StagedCost read_staged_cost(JsonReader json, int version) {
  StagedCost cost;
  cost.pattern = json.key("pattern").name();
  cost.world_size = json.key("world_size").small_integer(1);
  cost.capacity = json.key("capacity").integer(0);
  read_phases(json, cost,
              [version](JsonReader phase) { return read_staged_phase(phase, version); });
  json.reject_other_keys();
  return cost;
}

OrderedJson json_of(const UnitCost& cost) {
  OrderedJson json{{"unit_class", cost.unit_class}, {"micro_batch", cost.micro_batch}};
  add_phases(json, cost);
  for (const StagedCost& staged : cost.staged) json["staged"].push_back(json_of(staged));
  return json;
}

UnitCost read_cost(JsonReader json, int version) {
  UnitCost cost;
  cost.unit_class = json.key("unit_class").name();
  cost.micro_batch = json.key("micro_batch").integer(1);
  read_phases(json, cost, [version](JsonReader phase) { return read_phase(phase, version); });
  if (const auto staged = json.optional_key("staged")) {
    for (const JsonReader& item : staged->items()) {
      cost.staged.push_back(read_staged_cost(item, version));
    }
  }
  json.reject_other_keys();
  return cost;
}

}  // namespace

std::string to_json(const Profile& profile) {
  OrderedJson costs = OrderedJson::array();
  for (const UnitCost& cost : profile.costs) {
    costs.push_back(json_of(cost));
  }
  OrderedJson json = {{"schema", "athanor.profile/3"},
                      {"architecture", json_of(profile.architecture)},
                      {"device", profile.device},
                      {"dtype", name_of(kDataTypeNames, profile.dtype)},
                      {"sequence_length", profile.sequence_length},
                      {"compute_threads", profile.compute_threads},
                      {"costs", std::move(costs)},
                      {"batch_bytes_per_sample", profile.batch_bytes_per_sample},
                      {"workspace_bytes", profile.workspace_bytes}};
  if (profile.always_deterministic) json["always_deterministic"] = true;
  if (profile.launch_seconds > 0) json["launch_seconds"] = profile.launch_seconds;
  if (profile.matmul_flops_per_second > 0) {
    json["matmul_flops_per_second"] = profile.matmul_flops_per_second;
  }
  json["provenance"] = json_of(profile.provenance);
  return dump_json(json);
}

Profile parse_profile(std::string_view text, const std::string& where) {
  const nlohmann::json document = parse_json(text, where);
  JsonReader json(document, ValuePath(where));
  const int version = check_schema(json, "profile", "profile", 3);
  Profile profile;
  profile.architecture = read_architecture(json.key("architecture"));
  profile.device = json.key("device").name();
  profile.dtype = json.key("dtype").choice(kDataTypeNames);
  profile.sequence_length = json.key("sequence_length").integer(1);
  profile.compute_threads = json.key("compute_threads").small_integer(1);
  for (const JsonReader& cost : json.key("costs").items()) {
    profile.costs.push_back(read_cost(cost, version));
  }
  profile.batch_bytes_per_sample = json.key("batch_bytes_per_sample").integer(0);
  profile.workspace_bytes = json.key("workspace_bytes").integer(0);
  if (const auto always = json.optional_key("always_deterministic")) {
    profile.always_deterministic = always->boolean();
  }
  if (const auto seconds = json.optional_key("launch_seconds")) {
    profile.launch_seconds = seconds->number();
  }
  if (const auto rate = json.optional_key("matmul_flops_per_second")) {
    profile.matmul_flops_per_second = rate->number();
  }
  profile.provenance = read_provenance(json.key("provenance"));
  json.reject_other_keys();
  profile.validate(where);
  return profile;
}

}  // namespace athanor
