// SPDX-License-Identifier: Apache-2.0
// athanor.plan/2, and /1 where it is read (see traces/README.md). Ranges are checked here;
// Plan::validate checks whether a
// plan fits an architecture.
#include "sim/formats/files.hpp"
#include "sim/formats/json_writer.hpp"
#include "sim/patterns/patterns.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor {
namespace {

OrderedJson json_of(const UnitPlan& unit) {
  OrderedJson chunks = OrderedJson::array();
  for (const ChunkRun& run : unit.chunks) {
    chunks.push_back({{"count", run.count},
                      {"parameters", name_of(kHomeNames, run.parameters)},
                      {"optimizer", name_of(kHomeNames, run.optimizer)}});
    if (run.gpu_adam) chunks.back()["adam"] = name_of(kAdamNames, run.gpu_adam);
  }
  OrderedJson json{{"sharding", name_of(kShardingNames, unit.sharding)},
                   {"activation", name_of(kActivationNames, unit.activation)},
                   {"chunks", std::move(chunks)}};
  if (unit.pattern != &weights_travel()) {
    json["pattern"] = unit.pattern->name();
    if (unit.capacity > 0) json["capacity"] = unit.capacity;
  }
  return json;
}

const UnitPattern& read_pattern(const JsonReader& json) {
  const std::string name = json.string();
  if (const UnitPattern* const pattern = find_pattern(name)) return *pattern;
  json.reject(fmt::format("there is no pattern '{}'", name),
              fmt::format("Use one of {}.", listed_patterns()));
}

UnitPlan read_unit_plan(JsonReader json) {
  UnitPlan unit;
  unit.sharding = json.key("sharding").choice(kShardingNames);
  unit.activation = json.key("activation").choice(kActivationNames);
  for (JsonReader& run : json.key("chunks").items()) {
    unit.chunks.push_back({run.key("count").integer(1), run.key("parameters").choice(kHomeNames),
                           run.key("optimizer").choice(kHomeNames)});
    const auto adam = run.optional_key("adam");
    unit.chunks.back().gpu_adam = adam && adam->choice(kAdamNames);
    run.reject_other_keys();
  }
  if (const auto pattern = json.optional_key("pattern")) unit.pattern = &read_pattern(*pattern);
  if (const auto capacity = json.optional_key("capacity")) {
    unit.capacity = capacity->integer(0);
    if (unit.pattern == &weights_travel()) {
      capacity->reject("weights travel, and have none",
                       "Set pattern to \"tokens\", or leave it out.");
    }
  }
  json.reject_other_keys();
  return unit;
}

OrderedJson json_of(const Schedule& schedule) {
  return {{"copies", name_of(kCopiesNames, schedule.copies)},
          {"optimizer", name_of(kOptimizerStartNames, schedule.optimizer)},
          {"optimizer_lanes", name_of(kOptimizerLanesNames, schedule.optimizer_lanes)},
          {"eviction", name_of(kEvictionNames, schedule.eviction)}};
}

Schedule read_schedule(JsonReader json) {
  Schedule schedule;
  schedule.copies = json.key("copies").choice(kCopiesNames);
  schedule.optimizer = json.key("optimizer").choice(kOptimizerStartNames);
  schedule.optimizer_lanes = json.key("optimizer_lanes").choice(kOptimizerLanesNames);
  schedule.eviction = json.key("eviction").choice(kEvictionNames);
  json.reject_other_keys();
  return schedule;
}

OrderedJson json_of(const Prediction& prediction) {
  return {{"step_seconds", prediction.step_seconds},
          {"peak_bytes", json_of(prediction.peak_bytes)}};
}

Prediction read_prediction(JsonReader json) {
  Prediction prediction;
  const JsonReader seconds = json.key("step_seconds");
  prediction.step_seconds = seconds.number();
  check_number(seconds.path(), prediction.step_seconds, 0, kMaxSeconds);
  prediction.peak_bytes = read_tier_bytes(json.key("peak_bytes"));
  json.reject_other_keys();
  return prediction;
}

OrderedJson json_of(const PlanSearch& search) {
  OrderedJson json = OrderedJson::object();
  if (search.gpu > 0) json["gpu_memory"] = search.gpu;
  if (search.host > 0) json["host_memory"] = search.host;
  if (search.nvme > 0) json["nvme"] = search.nvme;
  if (search.adam_threads > 0) json["adam_threads"] = search.adam_threads;
  if (search.host_slowdown > 0) json["host_slowdown"] = search.host_slowdown;
  if (search.energy_within > 0) json["energy_within"] = search.energy_within;
  return json;
}

PlanSearch read_search(JsonReader json) {
  constexpr double kMost = 1000;
  PlanSearch search;
  const auto read_bytes = [&](const char* key, Bytes& value) {
    if (const auto bytes = json.optional_key(key)) value = bytes->integer(1);
  };
  const auto read_number = [&](const char* key, double& value) {
    const auto number = json.optional_key(key);
    if (!number) return;
    value = number->number();
    check_number(number->path(), value, 0, kMost);
  };
  read_bytes("gpu_memory", search.gpu);
  read_bytes("host_memory", search.host);
  read_bytes("nvme", search.nvme);
  if (const auto threads = json.optional_key("adam_threads")) {
    search.adam_threads = threads->small_integer(1);
  }
  read_number("host_slowdown", search.host_slowdown);
  read_number("energy_within", search.energy_within);
  json.reject_other_keys();
  return search;
}

double read_max_gradient_norm(const JsonReader& json) {
  const double norm = json.number();
  check_positive(json.path(), norm);
  return norm;
}

std::string path_or_empty(JsonReader& json, const std::string& key) {
  const auto path = json.optional_key(key);
  return path ? path->string() : "";
}

void read_step(JsonReader& json, Plan& plan) {
  constexpr std::int64_t kMaxBatch = 1'000'000;
  constexpr std::int64_t kMaxSequence = std::int64_t{1} << 30;
  plan.name = json.key("name").name();
  plan.world_size = json.key("world_size").small_integer(1);
  plan.micro_batch = json.key("micro_batch").integer(1, kMaxBatch);
  plan.accumulation = json.key("accumulation").integer(1, kMaxBatch);
  if (const auto group = json.optional_key("micro_batch_group")) {
    plan.micro_batch_group = group->integer(1, kMaxBatch);
  }
  plan.dtype = json.key("dtype").choice(kDataTypeNames);
  if (const auto state = json.optional_key("adam_state")) {
    plan.adam_state = state->choice(kAdamStateNames);
  }
  plan.sequence_length = json.key("sequence_length").integer(1, kMaxSequence);
  plan.chunk_elements = json.key("chunk_elements").integer(1);
  plan.cache_slots = json.key("cache_slots").small_integer(1);
  plan.gradient_buffers = json.key("gradient_buffers").small_integer(1);
  plan.prefetch_depth = json.key("prefetch_depth").small_integer(0);
  plan.clipping = json.key("clipping").choice(kClippingNames);
  plan.max_gradient_norm = read_max_gradient_norm(json.key("max_gradient_norm"));
  if (const auto share = json.optional_key("clipped_share")) {
    plan.clipped_share = share->number();
    check_number(share->path(), plan.clipped_share, 0, 1);
  }
  plan.cpu_adam_threads = json.key("cpu_adam_threads").small_integer(1);
  if (const auto late = json.optional_key("late_updates")) {
    plan.late_updates = late->small_integer(0);
  }
  if (const auto buffers = json.optional_key("nvme_buffers")) {
    plan.nvme_buffers = buffers->small_integer(1);
  }
  if (const auto buffers = json.optional_key("parameter_buffers")) {
    plan.parameter_buffers = buffers->small_integer(1);
  }
  if (const auto buffers = json.optional_key("stream_buffers")) {
    plan.stream_buffers = buffers->small_integer(1);
  }
  if (const auto buffers = json.optional_key("gradient_ring")) {
    plan.gradient_ring = buffers->small_integer(0);
  }
  plan.compute_threads = json.key("compute_threads").small_integer(1);
  if (const auto deterministic = json.optional_key("deterministic")) {
    plan.deterministic = deterministic->boolean();
  }
  if (const auto graphs = json.optional_key("cuda_graphs")) plan.cuda_graphs = graphs->boolean();
  if (const auto snapshot = json.optional_key("snapshot")) {
    plan.snapshot = snapshot->choice(kSnapshotNames);
  }
  if (const auto every = json.optional_key("snapshot_every")) {
    plan.snapshot_every = every->small_integer(1);
  }
  if (const auto copies = json.optional_key("snapshot_copies")) {
    plan.snapshot_copies = copies->small_integer(1);
  }
  if (const auto send = json.optional_key("snapshot_send")) {
    plan.snapshot_send = send->choice(kSnapshotSendNames);
  }
  if (const auto schedule = json.optional_key("schedule")) plan.schedule = read_schedule(*schedule);
}

}  // namespace

std::string to_json(const Plan& plan) {
  OrderedJson json{{"schema", "athanor.plan/2"},
                   {"name", plan.name},
                   {"world_size", plan.world_size},
                   {"micro_batch", plan.micro_batch},
                   {"accumulation", plan.accumulation},
                   {"dtype", name_of(kDataTypeNames, plan.dtype)},
                   {"sequence_length", plan.sequence_length},
                   {"chunk_elements", plan.chunk_elements},
                   {"cache_slots", plan.cache_slots},
                   {"gradient_buffers", plan.gradient_buffers},
                   {"prefetch_depth", plan.prefetch_depth},
                   {"clipping", name_of(kClippingNames, plan.clipping)},
                   {"max_gradient_norm", plan.max_gradient_norm},
                   {"cpu_adam_threads", plan.cpu_adam_threads},
                   {"compute_threads", plan.compute_threads}};
  if (plan.adam_state != AdamState::Float32) {
    json["adam_state"] = name_of(kAdamStateNames, plan.adam_state);
  }
  if (!plan.deterministic) json["deterministic"] = false;
  if (plan.cuda_graphs) json["cuda_graphs"] = true;
  if (plan.micro_batch_group > 1) json["micro_batch_group"] = plan.micro_batch_group;
  if (plan.clipped_share > 0) json["clipped_share"] = plan.clipped_share;
  if (plan.late_updates > 0) json["late_updates"] = plan.late_updates;
  if (uses_nvme(plan)) json["nvme_buffers"] = plan.nvme_buffers;
  if (reads_parameters(plan)) json["parameter_buffers"] = plan.parameter_buffers;
  if (streams_state(plan)) json["stream_buffers"] = plan.stream_buffers;
  if (plan.gradient_ring > 0) json["gradient_ring"] = plan.gradient_ring;
  if (plan.snapshot != Snapshot::None) json["snapshot"] = name_of(kSnapshotNames, plan.snapshot);
  if (plan.snapshot_every > 1) json["snapshot_every"] = plan.snapshot_every;
  if (plan.snapshot_copies > 1) json["snapshot_copies"] = plan.snapshot_copies;
  if (plan.snapshot_send != SnapshotSend::Direct) {
    json["snapshot_send"] = name_of(kSnapshotSendNames, plan.snapshot_send);
  }
  if (plan.schedule != Schedule{}) json["schedule"] = json_of(plan.schedule);
  json["units"] = OrderedJson::array();
  for (const UnitPlan& unit : plan.units) {
    json["units"].push_back(json_of(unit));
  }
  json["profile_path"] = plan.profile_path;
  json["platform_path"] = plan.platform_path;
  if (plan.search) json["search"] = json_of(*plan.search);
  json["prediction"] = plan.prediction ? json_of(*plan.prediction) : OrderedJson(nullptr);
  return dump_json(json);
}

Plan parse_plan(std::string_view text, const std::string& where) {
  const nlohmann::json document = parse_json(text, where);
  JsonReader json(document, ValuePath(where));
  check_schema(json, "plan", "tune", 2);
  Plan plan;
  read_step(json, plan);
  for (const JsonReader& unit : json.key("units").items()) {
    plan.units.push_back(read_unit_plan(unit));
  }
  plan.profile_path = path_or_empty(json, "profile_path");
  plan.platform_path = path_or_empty(json, "platform_path");
  if (const auto search = json.optional_key("search")) plan.search = read_search(*search);
  if (const auto prediction = json.optional_key("prediction")) {
    plan.prediction = read_prediction(*prediction);
  }
  json.reject_other_keys();
  return plan;
}

}  // namespace athanor
