// SPDX-License-Identifier: Apache-2.0
#include "tests/support/synthetic.hpp"

#include "sim/model/language_models.hpp"

#include <algorithm>

namespace athanor::test {
namespace {

constexpr std::int64_t kMixtureSequence = 16;

/// Returns a third of the phase for each stage, with as much memory as the whole unit.
StagedPhase thirds(const PhaseCost& whole, Bytes held) {
  StagedPhase phase;
  for (int stage = 0; stage < 3; ++stage) {
    PhaseCost cost = whole;
    cost.seconds /= 3;
    cost.peak_bytes += held;
    phase.stages.push_back(cost);
  }
  phase.held = {held, held};
  return phase;
}

constexpr double kSustainedFlopsPerSecond = 60e9;
constexpr double kFlopsPerSecond = 40e9;  // rate that units reach

Provenance made_up() {
  Provenance provenance;
  provenance.source = Source::Synthetic;
  provenance.date = "2026-01-01";
  provenance.command = "tests/support/synthetic.cpp";
  provenance.notes = "Formulae of a plausible size, for examples and tests; nothing was measured.";
  return provenance;
}

/// Returns a curve of a start-up time and a rate, as two points.
Curve line(Seconds latency, double rate) {
  constexpr double kLarge = 1e9;
  return {{{0, latency, 0}, {kLarge, latency + kLarge / rate, 0}}};
}

std::int64_t width_of(const Unit& unit) {
  return unit.parameters.empty() ? 1 : unit.parameters.front().shape.back();
}

/// Returns the elements that a token is multiplied with, borrowed matrices included.
double elements_used(const Architecture& architecture, const Unit& unit) {
  auto elements = static_cast<double>(unit.num_elements());
  for (const Borrow& borrow : unit.borrows) {
    for (const Parameter& parameter :
         architecture.units[static_cast<std::size_t>(borrow.unit)].parameters) {
      if (parameter.name == borrow.parameter) {
        elements += static_cast<double>(parameter.num_elements());
      }
    }
  }
  return elements;
}

UnitCost cost_of(const Architecture& architecture, const Unit& unit, std::int64_t tokens,
                 std::int64_t micro_batch) {
  constexpr Seconds kOverhead = 20e-6;
  constexpr std::int64_t kSavedPerWidth = 16;
  const bool first = unit.unit_class == architecture.units.front().unit_class;
  const bool last = unit.unit_class == architecture.units.back().unit_class;
  // An embedding only reads one row per token.
  const double elements =
      first ? static_cast<double>(width_of(unit)) : elements_used(architecture, unit);
  const Seconds forward = kOverhead + 2 * elements * static_cast<double>(tokens) / kFlopsPerSecond;
  const Bytes row = tokens * width_of(unit) * 4;
  UnitCost cost;
  cost.unit_class = unit.unit_class;
  cost.micro_batch = micro_batch;
  cost.output_bytes = last ? 0 : row;
  cost.saved_bytes = first ? row : kSavedPerWidth * row;
  cost.grad_input_bytes = first ? 0 : row;
  cost.forward_keep = {forward, 0, cost.saved_bytes + row};
  cost.forward_discard = {0.95 * forward, 0, cost.output_bytes + 2 * row};
  cost.recompute = cost.forward_keep;
  cost.backward = {2 * forward, 0, cost.grad_input_bytes + 2 * row};
  return cost;
}

}  // namespace

Platform synthetic_platform(int num_devices) {
  constexpr double kGB = 1e9;
  Platform platform;
  platform.name = "example-cpu";
  platform.device = "made-up CPU";
  platform.backend = "cpu";
  platform.num_devices = num_devices;
  platform.device_memory = 256 * kMiB;
  platform.host_memory = 4 * kGiB;
  platform.host_cores = 8;
  platform.matmul_flops_per_second = kSustainedFlopsPerSecond;
  platform.h2d = line(10e-6, 6 * kGB);
  platform.d2h = line(10e-6, 5 * kGB);
  for (int ranks = 1; ranks <= num_devices; ranks *= 2) {
    platform.all_gather.push_back({ranks, line(20e-6, 3 * kGB)});
    platform.reduce_scatter.push_back({ranks, line(20e-6, 2 * kGB)});
    platform.all_reduce.push_back({ranks, line(30e-6, 1.2 * kGB)});
  }
  platform.cpu_adam = {{1, line(5e-6, 0.3e9)}, {2, line(6e-6, 0.5e9)}, {4, line(8e-6, 0.8e9)}};
  platform.device_adam = line(5e-6, 0.6e9);
  platform.device_square_sum = line(5e-6, 2e9);
  platform.host_square_sum = line(5e-6, 1.5e9);
  platform.file_read = line(50e-6, 1 * kGB);
  platform.file_write = line(50e-6, 0.6 * kGB);
  platform.shared = {{"host memory",
                      SharedResource::Scope::Node,
                      12 * kGB,
                      {{Lane::H2D, 6 * kGB}, {Lane::D2H, 5 * kGB}, {Lane::CpuAdam, 8 * kGB}}},
                     {"nvme",
                      SharedResource::Scope::Node,
                      1.2 * kGB,
                      {{Lane::NvmeRead, 1 * kGB}, {Lane::NvmeWrite, 0.6 * kGB}}}};
  platform.provenance = made_up();
  return platform;
}

Profile synthetic_profile(const Architecture& architecture, std::int64_t sequence_length,
                          const std::vector<std::int64_t>& micro_batches) {
  Profile profile;
  profile.architecture = architecture;
  profile.device = "made-up CPU";
  profile.sequence_length = sequence_length;
  profile.batch_bytes_per_sample = 2 * 8 * sequence_length;
  profile.provenance = made_up();
  for (const std::int64_t micro_batch : micro_batches) {
    std::vector<std::string> seen;
    for (const Unit& unit : architecture.units) {
      if (std::find(seen.begin(), seen.end(), unit.unit_class) != seen.end()) continue;
      seen.push_back(unit.unit_class);
      profile.costs.push_back(
          cost_of(architecture, unit, micro_batch * sequence_length, micro_batch));
    }
  }
  return profile;
}

void limit_power(std::mt19937& random, Platform& platform, Profile& profile) {
  std::uniform_real_distribution<double> share(0, 1);
  PowerModel power;
  power.idle_watts = 100;
  power.limits = {{450 + 100 * share(random), 5e-6 * share(random)}};
  power.lane_watts = {{Lane::Compute, 300}, {Lane::Collective, 100}, {Lane::H2D, 20}};
  power.matmul_watts = 400 + 600 * share(random);
  power.exponent = 1.5 + share(random);
  platform.power = power;
  for (const Lane lane : {Lane::Collective, Lane::H2D}) {
    if (share(random) < 0.5) continue;
    platform.contention.push_back(
        {1, {{Lane::Compute, 1 + share(random)}, {lane, 1 + share(random)}}});
  }
  for (UnitCost& cost : profile.costs) {
    for (const auto member : kUnitPhases) {
      PhaseCost& phase = cost.*member;
      phase.unthrottled_seconds = phase.seconds * (0.7 + 0.3 * share(random));
      phase.watts = 400 + 500 * share(random);
    }
  }
}

Architecture split_mixture(std::int64_t hidden, std::int64_t experts, std::int64_t inner) {
  LanguageModelConfig config;
  config.model_type = "qwen3_moe";
  config.vocab_size = 64;
  config.hidden_size = hidden;
  config.num_layers = 2;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = hidden / 2;
  config.intermediate_size = 64;
  config.max_positions = kMixtureSequence;
  config.activation = "silu";
  config.experts = {.number = experts,
                    .per_token = 2,
                    .intermediate_size = inner,
                    .normalized = true,
                    .dense_blocks = {}};
  return make_architecture("mixture", config, Blocks::Split);
}

namespace {

/// Adds costs of three stages of a third of each phase to `cost`.
void add_staged(UnitCost& cost, const char* pattern, int ranks, std::int64_t capacity) {
  StagedCost staged;
  staged.pattern = pattern;
  staged.world_size = ranks;
  staged.capacity = capacity;
  staged.output_bytes = cost.output_bytes;
  staged.saved_bytes = cost.saved_bytes;
  staged.grad_input_bytes = cost.grad_input_bytes;
  for (std::size_t i = 0; i < kUnitPhases.size(); ++i) {
    staged.*kStagedPhases[i] = thirds(cost.*kUnitPhases[i], cost.saved_bytes);
  }
  cost.staged.push_back(staged);
}

}  // namespace

Profile mixture_profile(int ranks) {
  constexpr std::int64_t kCapacity = 32;
  Profile profile = synthetic_profile(split_mixture(64, 16, 64), kMixtureSequence, {1});
  for (UnitCost& cost : profile.costs) {
    if (cost.unit_class == "experts") add_staged(cost, "tokens", ranks, kCapacity);
  }
  return profile;
}

Profile mixed_patterns_profile(int ranks) {
  Profile profile = mixture_profile(ranks);
  for (UnitCost& cost : profile.costs) {
    if (cost.unit_class == kAttentionClass) add_staged(cost, "tensors", ranks, 0);
  }
  return profile;
}

Architecture split_llama() {
  LanguageModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 64;
  config.hidden_size = 64;
  config.num_layers = 2;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 16;
  config.intermediate_size = 128;
  config.max_positions = kMixtureSequence;
  config.activation = "silu";
  return make_architecture("llama", config, Blocks::Split);
}

Profile split_tensors_profile(int ranks) {
  Profile profile = synthetic_profile(split_llama(), kMixtureSequence, {1});
  for (UnitCost& cost : profile.costs) {
    if (cost.unit_class != "embedding" && cost.unit_class != "head") {
      add_staged(cost, "tensors", ranks, 0);
    }
  }
  return profile;
}

}  // namespace athanor::test
