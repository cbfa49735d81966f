// SPDX-License-Identifier: Apache-2.0
#include "tests/train/run_plans.hpp"

#include "sim/model/chunk_layout.hpp"
#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"

namespace athanor::test {
namespace {

constexpr std::int64_t kWholeUnit = 1 << 20;

void place(Plan& plan, const Architecture& architecture, std::size_t unit, Sharding sharding,
           std::vector<ChunkRun> pattern) {
  plan.units[unit].sharding = sharding;
  plan.units[unit].chunks.clear();
  const std::int64_t count = num_chunks(architecture.units[unit], plan.chunk_elements,
                                        plan.world_size, weights_travel(), plan.adam_state);
  for (std::int64_t i = 0; i < count; ++i) {
    plan.units[unit].chunks.push_back(pattern[static_cast<std::size_t>(i) % pattern.size()]);
  }
}

/// Returns one plan with every sharding and every home.
Plan mixed_plan(const Architecture& architecture, int world_size, std::int64_t accumulation,
                AdamState adam_state) {
  constexpr std::int64_t kChunk = 1500;
  Plan plan = uniform_plan(architecture, world_size, accumulation, Sharding::Sharded, Home::Gpu,
                           Home::Gpu, Activation::Keep, kChunk, adam_state);
  const ChunkRun device{1, Home::Gpu, Home::Gpu};
  const ChunkRun split{1, Home::Gpu, Home::Host};
  const ChunkRun host{1, Home::Host, Home::Host};
  place(plan, architecture, 0, Sharding::Replicated, {device, split});
  place(plan, architecture, 1, Sharding::Sharded, {host, device, split});
  place(plan, architecture, 2, Sharding::OptimizerSharded, {split, device});
  place(plan, architecture, 3, Sharding::Sharded, {split, host, host});
  plan.units[2].activation = Activation::Recompute;
  return plan;
}

}  // namespace

Architecture tiny_gpt2() {
  LanguageModelConfig config;
  config.model_type = "gpt2";
  config.vocab_size = kVocabulary;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 16;
  config.intermediate_size = 64;
  config.max_positions = kSequence;
  config.activation = "gelu_new";
  config.tie_word_embeddings = true;
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  return make_architecture("tiny", config);
}

Architecture tiny_mixture(std::int64_t experts) {
  LanguageModelConfig config;
  config.model_type = "qwen3_moe";
  config.vocab_size = kVocabulary;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 16;
  config.intermediate_size = 64;
  config.max_positions = kSequence;
  config.activation = "silu";
  config.tie_word_embeddings = true;
  config.experts = {.number = experts,
                    .per_token = 2,
                    .intermediate_size = 16,
                    .normalized = true,
                    .balance_loss_factor = 0.01,
                    .dense_blocks = {1}};
  return make_architecture("tiny-mixture", config);
}

Architecture divisible_mixture() {
  LanguageModelConfig config = tiny_mixture(8).language_model.value();
  config.num_heads = 8;
  config.num_kv_heads = 4;
  return make_architecture("divisible-mixture", config);
}

Architecture tiny_llama() {
  LanguageModelConfig config;
  config.model_type = "llama";
  config.vocab_size = kVocabulary;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 32;
  config.intermediate_size = 128;
  config.max_positions = kSequence;
  config.activation = "silu";
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  return make_architecture("tiny-llama", config);
}

Plan uniform_plan(const Architecture& architecture, int world_size, std::int64_t accumulation,
                  Sharding sharding, Home parameters, Home optimizer, Activation activation,
                  std::int64_t chunk_elements, AdamState adam_state) {
  Plan plan;
  plan.adam_state = adam_state;
  plan.name = "test";
  plan.world_size = world_size;
  plan.accumulation = accumulation;
  plan.sequence_length = kSequence;
  plan.chunk_elements = chunk_elements;
  plan.clipping = Clipping::Wait;
  plan.max_gradient_norm = 0.5;
  for (const Unit& unit : architecture.units) {
    UnitPlan unit_plan{.sharding = sharding, .activation = activation, .chunks = {}};
    const std::int64_t count =
        num_chunks(unit, chunk_elements, world_size, weights_travel(), adam_state);
    if (count > 0) unit_plan.chunks.push_back({count, parameters, optimizer});
    plan.units.push_back(std::move(unit_plan));
  }
  return plan;
}

std::vector<Plan> varied_plans(const Architecture& architecture, int world_size,
                               std::int64_t global_batch, AdamState adam_state) {
  constexpr auto kDevice = Home::Gpu;
  constexpr auto kHost = Home::Host;
  constexpr auto kKeep = Activation::Keep;
  constexpr auto kAgain = Activation::Recompute;
  constexpr auto kAway = Activation::Offload;
  const std::int64_t accumulation = global_batch / world_size;
  std::vector<Plan> plans;
  const auto add = [&](const char* name, Plan plan) -> Plan& {
    plan.name = name;
    plans.push_back(std::move(plan));
    return plans.back();
  };
  const auto uniform = [&](Sharding sharding, Home parameters, Home optimizer,
                           Activation activation, std::int64_t chunk) {
    return uniform_plan(architecture, world_size, accumulation, sharding, parameters, optimizer,
                        activation, chunk, adam_state);
  };
  add("ddp", uniform(Sharding::Replicated, kDevice, kDevice, kKeep, kWholeUnit));
  add("ddp, optimizer on the host", uniform(Sharding::Replicated, kDevice, kHost, kAgain, 2000));
  add("zero1", uniform(Sharding::OptimizerSharded, kDevice, kDevice, kKeep, 3000))
      .gradient_buffers = 1;
  add("zero2-offload", uniform(Sharding::OptimizerSharded, kDevice, kHost, kKeep, kWholeUnit));
  add("zero3", uniform(Sharding::Sharded, kDevice, kDevice, kKeep, kWholeUnit));
  Plan& deep = add("deep prefetch", uniform(Sharding::Sharded, kDevice, kHost, kAgain, 1000));
  deep.cache_slots = 4;
  deep.prefetch_depth = 3;
  add("zero3-offload", uniform(Sharding::Sharded, kHost, kHost, kAgain, 700));
  Plan& narrow = add("one slot", uniform(Sharding::Sharded, kHost, kHost, kKeep, 5000));
  narrow.cache_slots = 1;
  narrow.gradient_buffers = 1;
  narrow.prefetch_depth = 0;
  Plan& threads = add("Adam threads", uniform(Sharding::Sharded, kHost, kHost, kKeep, 40000));
  threads.cpu_adam_threads = 2;
  add("mixed", mixed_plan(architecture, world_size, accumulation, adam_state));
  Plan& blocking =
      add("blocking copies", mixed_plan(architecture, world_size, accumulation, adam_state));
  blocking.schedule = {.copies = Copies::Blocking,
                       .optimizer = OptimizerStart::AfterBackward,
                       .optimizer_lanes = OptimizerLanes::Serial};
  add("outputs on the host", uniform(Sharding::Sharded, kDevice, kDevice, kAway, 3000));
  add("all on the host", uniform(Sharding::Sharded, kHost, kHost, kAway, 3000));
  Plan& waiting = add("blocking outputs", uniform(Sharding::Sharded, kHost, kHost, kAway, 3000));
  waiting.schedule.copies = Copies::Blocking;
  add("state on NVMe", uniform(Sharding::Sharded, kHost, Home::Nvme, kAgain, 3000));
  add("one NVMe buffer", uniform(Sharding::OptimizerSharded, kDevice, Home::Nvme, kKeep, 700))
      .nvme_buffers = 1;
  add("all on NVMe", uniform(Sharding::Sharded, Home::Nvme, Home::Nvme, kAgain, 3000));
  Plan& late = add("all on NVMe, some of it updated late",
                   uniform(Sharding::Sharded, Home::Nvme, Home::Nvme, kKeep, 1000));
  late.late_updates = 2;
  Plan& rings =
      add("one parameter buffer", mixed_plan(architecture, world_size, accumulation, adam_state));
  rings.parameter_buffers = 1;
  rings.nvme_buffers = 2;
  for (ChunkRun& run : rings.units[1].chunks) {
    if (run.parameters == kHost) run.parameters = run.optimizer = Home::Nvme;
  }
  add("late updates", uniform(Sharding::Sharded, kHost, kHost, kKeep, 3000)).late_updates = 3;
  add("one gradient buffer", uniform(Sharding::Sharded, kHost, kHost, kAgain, 700)).gradient_ring =
      1;
  Plan& ring =
      add("a gradient ring", mixed_plan(architecture, world_size, accumulation, adam_state));
  ring.gradient_ring = 3;
  ring.late_updates = 1;
  add("a gradient ring before NVMe", uniform(Sharding::Sharded, kHost, Home::Nvme, kAgain, 700))
      .gradient_ring = 2;
  const auto stream = [](Plan& plan, int buffers) {
    plan.stream_buffers = buffers;
    for (UnitPlan& unit : plan.units) {
      for (ChunkRun& run : unit.chunks) run.gpu_adam = run.optimizer == kHost;
    }
  };
  stream(add("streamed state", uniform(Sharding::Sharded, kHost, kHost, kAgain, 3000)), 2);
  stream(add("one stream buffer",
             uniform(Sharding::OptimizerSharded, kDevice, kHost, kKeep, kWholeUnit)),
         1);
  stream(add("streamed and mixed", mixed_plan(architecture, world_size, accumulation, adam_state)),
         3);
  const auto group = [&](Plan& plan, std::int64_t members) {
    plan.micro_batch_group = members;
    plan.gradient_buffers = static_cast<int>(members);  // the head borrows from the embedding
  };
  group(add("one group, replicated", uniform(Sharding::Replicated, kDevice, kHost, kKeep, 2000)),
        accumulation);
  group(add("one group", uniform(Sharding::Sharded, kHost, kHost, kAgain, 3000)), accumulation);
  group(add("a group's outputs on the host",
            uniform(Sharding::Sharded, kHost, Home::Nvme, kAway, 3000)),
        accumulation);
  group(add("mixed groups", mixed_plan(architecture, world_size, accumulation, adam_state)),
        accumulation % 2 == 0 ? 2 : 1);
  add("snapshots", uniform(Sharding::Sharded, kHost, kHost, kAgain, 3000)).snapshot =
      Snapshot::Redo;
  Plan& redo =
      add("snapshots of shards", uniform(Sharding::OptimizerSharded, kDevice, kHost, kKeep, 2000));
  redo.snapshot = Snapshot::Redo;
  redo.cpu_adam_threads = 2;
  const auto keep_versions = [&](const char* name, const Plan& plan) -> Plan& {
    Plan& added = add(name, plan);
    added.snapshot = Snapshot::Versions;
    added.cpu_adam_threads = 2;
    return added;
  };
  keep_versions("versions", uniform(Sharding::Sharded, kHost, kHost, kAgain, 3000)).late_updates =
      1;
  keep_versions("versions of shards",
                uniform(Sharding::OptimizerSharded, kDevice, kHost, kKeep, 2000));
  keep_versions("versions of whole units",
                uniform(Sharding::Replicated, kDevice, kHost, kKeep, kWholeUnit));
  keep_versions("versions and a ring", uniform(Sharding::Sharded, kDevice, kHost, kKeep, 700))
      .gradient_ring = 3;
  const auto copy_state = [&](const char* name, const Plan& plan) {
    add(name, plan).snapshot = Snapshot::Copy;
  };
  copy_state("copies of state", mixed_plan(architecture, world_size, accumulation, adam_state));
  copy_state("copies of whole units",
             uniform(Sharding::Replicated, kDevice, kDevice, kAgain, 2000));
  copy_state("copies of shards, outputs on the host",
             uniform(Sharding::Sharded, kDevice, kDevice, kAway, 3000));
  add("first in, first out", uniform(Sharding::Sharded, kHost, kHost, kKeep, 700))
      .schedule.eviction = Eviction::Fifo;
  return plans;
}

std::vector<Plan> copied_plans(const Architecture& architecture, int world_size,
                               std::int64_t global_batch, DataType dtype, AdamState adam_state) {
  const std::int64_t accumulation = global_batch / world_size;
  const auto on_device = [&](Sharding sharding) {
    return uniform_plan(architecture, world_size, accumulation, sharding, Home::Gpu, Home::Gpu,
                        Activation::Recompute, 3000, adam_state);
  };
  std::vector<Plan> kinds{mixed_plan(architecture, world_size, accumulation, adam_state),
                          on_device(Sharding::Replicated), on_device(Sharding::OptimizerSharded),
                          on_device(Sharding::Sharded)};
  kinds.push_back(kinds.front());
  kinds.back().late_updates = static_cast<int>(architecture.units.size());
  kinds.push_back(on_device(Sharding::OptimizerSharded));
  kinds.back().snapshot_every = 2;
  if (adam_state != AdamState::Float32) kinds.resize(1);
  std::vector<Plan> plans;
  for (const Clipping clipping : {Clipping::None, Clipping::Wait, Clipping::Speculate}) {
    if (clipping == Clipping::Speculate && dtype == DataType::Float32) continue;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      Plan plan = kinds[kind];
      plan.name = "copies " + std::to_string(kind) + ", clipping " +
                  std::to_string(static_cast<int>(clipping));
      plan.dtype = dtype;
      plan.clipping = clipping;
      plan.snapshot = Snapshot::Copy;
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

void add_free_travel(Profile& profile, int world_size, std::int64_t capacity) {
  StagedPhase free;
  free.stages.resize(tokens_travel().exchanges().size() + 1);
  free.held.resize(free.stages.size() - 1);
  StagedCost staged;
  staged.pattern = tokens_travel().name();
  staged.world_size = world_size;
  staged.capacity = capacity;
  staged.forward_keep = staged.forward_discard = staged.recompute = staged.backward = free;
  for (const Unit& unit : profile.architecture.units) {
    if (!has_only_experts(unit)) continue;
    for (UnitCost& cost : profile.costs) {
      if (cost.unit_class == unit.unit_class && cost.staged.empty()) cost.staged.push_back(staged);
    }
  }
}

void let_activations_travel(Plan& plan, const Profile& profile, ChunkRun run, Sharding sharding) {
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = profile.architecture.units[u];
    const bool splits = has_tensors_to_split(profile.architecture, unit);
    if (!splits && !has_only_experts(unit)) continue;
    const auto& staged = profile.cost(unit.unit_class, plan.micro_batch).staged;
    if (staged.empty()) continue;
    UnitPlan& unit_plan = plan.units[u];
    unit_plan.pattern = splits ? &tensors_split() : &tokens_travel();
    unit_plan.capacity = staged.front().capacity;
    unit_plan.sharding = sharding;
    run.count = num_chunks(unit, plan.chunk_elements, plan.world_size, *unit_plan.pattern);
    unit_plan.chunks = {run};
  }
}

std::vector<Plan> travelling_plans(const Profile& profile, int world_size,
                                   std::int64_t global_batch) {
  constexpr auto kDevice = Home::Gpu;
  constexpr auto kHost = Home::Host;
  const std::int64_t accumulation = global_batch / world_size;
  std::vector<Plan> plans;
  const auto add = [&](const char* name, Sharding sharding, Home parameters, Home optimizer,
                       Activation activation) -> Plan& {
    Plan& plan =
        plans.emplace_back(uniform_plan(profile.architecture, world_size, accumulation, sharding,
                                        parameters, optimizer, activation, 3000));
    plan.name = name;
    plan.cache_slots = plan.prefetch_depth = 1;
    return plan;
  };
  add("weights travel", Sharding::Sharded, kHost, kHost, Activation::Recompute);
  const auto travel = [&](Plan& plan, Home optimizer, Sharding sharding) -> Plan& {
    let_activations_travel(plan, profile, {1, kDevice, optimizer}, sharding);
    return plan;
  };
  constexpr auto kReplicated = Sharding::Replicated, kOptimizer = Sharding::OptimizerSharded;
  travel(add("all on the device", kReplicated, kDevice, kDevice, Activation::Keep), kDevice,
         kReplicated);
  travel(add("optimizer sharded", kOptimizer, kDevice, kDevice, Activation::Recompute), kDevice,
         kOptimizer);
  travel(add("state on the host", Sharding::Sharded, kHost, kHost, Activation::Recompute), kHost,
         kOptimizer);
  travel(add("outputs on the host", Sharding::Sharded, kHost, kHost, Activation::Offload), kHost,
         kReplicated);
  travel(add("state on NVMe", Sharding::Sharded, kHost, Home::Nvme, Activation::Keep), Home::Nvme,
         kOptimizer);
  Plan& streamed = travel(add("streamed state", kOptimizer, kDevice, kHost, Activation::Keep),
                          kHost, kOptimizer);
  for (UnitPlan& unit : streamed.units) {
    for (ChunkRun& run : unit.chunks) run.gpu_adam = true;
  }
  Plan& late = travel(add("late updates", Sharding::Sharded, kHost, kHost, Activation::Keep), kHost,
                      kReplicated);
  late.late_updates = 4;
  late.gradient_buffers = 1;
  return plans;
}

}  // namespace athanor::test
