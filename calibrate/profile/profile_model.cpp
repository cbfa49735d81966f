// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/profile_model.hpp"

#include "calibrate/bench/measure.hpp"
#include "calibrate/kernels/kernel_costs.hpp"
#include "calibrate/machine/machine.hpp"
#include "calibrate/power/energy_watch.hpp"
#include "calibrate/power/unthrottled.hpp"
#include "calibrate/profile/class_profiler.hpp"
#include "calibrate/profile/profile_checks.hpp"
#include "calibrate/profile/recorded_bench.hpp"
#include "calibrate/profile/staged_bench.hpp"
#include "calibrate/profile/unit_bench.hpp"
#include "executor/units/language_model.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/model/language_models.hpp"
#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Sets LibTorch's threads for the calling thread, and resets them in the end.
class ComputeThreads {
 public:
  explicit ComputeThreads(int threads) : former_(torch::get_num_threads()) {
    torch::set_num_threads(threads);
  }
  ~ComputeThreads() { torch::set_num_threads(former_); }
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

 private:
  int former_;
};

Bytes batch_bytes(const Batch& batch) {
  Bytes bytes = static_cast<Bytes>(batch.inputs.nbytes());
  if (batch.targets.defined()) {
    bytes += static_cast<Bytes>(batch.targets.nbytes());
  }
  return bytes;
}

/// Returns a model with equal unit classes and as few layers as have them all. Modules of layers
/// that are not run would only take memory.
Architecture shortened(const Architecture& architecture) {
  LanguageModelConfig config = architecture.language_model.value();
  const std::vector<std::int64_t> dense = config.experts.dense_blocks;
  const std::vector<std::int64_t> full = config.full_attention_blocks;
  const std::int64_t layers = config.num_layers;
  const std::size_t classes = representatives(architecture).size();
  for (config.num_layers = 1; config.num_layers < layers; ++config.num_layers) {
    const auto first_of = [&](const std::vector<std::int64_t>& blocks) {
      return std::vector(blocks.begin(), std::ranges::lower_bound(blocks, config.num_layers));
    };
    config.experts.dense_blocks = first_of(dense);
    config.full_attention_blocks = first_of(full);
    // A mixture whose first blocks have no experts, or no window.
    if (std::ssize(config.experts.dense_blocks) == config.num_layers ||
        std::ssize(config.full_attention_blocks) == config.num_layers) {
      continue;
    }
    Architecture candidate = make_architecture(architecture.name, config, blocks_of(architecture));
    if (representatives(candidate).size() == classes) return candidate;
  }
  return architecture;
}

/// Measures the power of an idle device; nothing for a device that does not count energy.
std::optional<double> idle_watts_of(const UnitMeter& meter) {
  if (!meter.joules()) return std::nullopt;
  constexpr Seconds kIdle = 0.3, kShort = 0.01;
  const EnergyWatch energy([&meter] { return meter.joules(); });
  const auto until_change = [&energy] { energy.until_change([] { sleep_for(kShort); }); };
  sleep_for(kIdle);
  until_change();
  const Moment from = Moment::clock::now();
  sleep_for(kIdle);
  const Moment to = Moment::clock::now();
  until_change();
  try {
    return energy.watts(from, to);
  } catch (const Error&) {
    return std::nullopt;  // a counter that stands still is none
  }
}

/// Lists the patterns with stages under which a unit is measured.
std::vector<StagedSetting> staged_settings(const Architecture& architecture, int unit,
                                           std::int64_t tokens, const ProfileOptions& options) {
  const Unit& description = architecture.units[static_cast<std::size_t>(unit)];
  std::vector<StagedSetting> settings;
  if (has_only_experts(description)) {
    for (const int ranks : options.expert_ranks) {
      settings.push_back(
          {&tokens_travel(), ranks,
           profiled_capacity(architecture, description, tokens, ranks, options.expert_capacity)});
    }
  }
  if (has_tensors_to_split(architecture, description)) {
    for (const int ranks : options.tensor_ranks) settings.push_back({&tensors_split(), ranks, 0});
  }
  return settings;
}

/// Adds what phases take as CUDA graphs. A unit that cannot be recorded is still trained without.
void add_graphs(const Model& model, const ClassProfiler::Site& site, UnitMeter& meter,
                const ProfileOptions& options, UnitCost& cost, KeptGraphs& kept) {
  try {
    RecordedBench(model, site.bound, site.unit, site.input, site.batch, meter)
        .run(options.rule, cost, kept);
  } catch (const std::exception& error) {
    const auto unit = static_cast<std::size_t>(site.unit);
    if (!options.remark) return;
    options.remark(fmt::format("unit class {} is not measured as CUDA graphs: {}",
                               model.architecture.units[unit].unit_class, error.what()));
  }
}

/// Measures costs under sustained load and, if the device counts energy, unthrottled.
std::vector<UnitCost> timed_costs(const Model& model, const ProfileOptions& options,
                                  UnitCount& count, UnitMeter& meter, bool deterministic,
                                  KeptGraphs& kept) {
  const std::optional<double> idle_watts = idle_watts_of(meter);
  const auto measure = [&](UnitBench& bench) {
    UnitCost paused;
    if (idle_watts) paused = bench.run_paused(*idle_watts).cost;
    UnitBenchResult result = bench.run(options.rule, paused);
    measure_unthrottled(result.cost, paused);
    return result;
  };
  const auto add_others = [&](const ClassProfiler::Site& site, UnitCost& cost) {
    add_graphs(model, site, meter, options, cost, kept);
    for (const StagedSetting& setting :
         staged_settings(model.architecture, site.unit, site.batch.inputs.numel(), options)) {
      cost.staged.push_back(staged_cost(model, site.unit, setting, site.input, site.batch, meter,
                                        deterministic, options.rule));
    }
  };
  std::vector<UnitCost> costs = ClassProfiler(model, count, meter, deterministic)
                                    .costs(options.micro_batches, measure, add_others);
  complete_unthrottled(costs);
  return costs;
}

/// Takes backward from costs with the fastest kernels, in the same order.
void add_nondeterministic(std::vector<UnitCost>& costs, std::vector<UnitCost> fastest) {
  for (std::size_t i = 0; i < costs.size(); ++i) {
    costs[i].nondeterministic_backward = std::move(fastest[i].backward);
    for (std::size_t s = 0; s < costs[i].staged.size(); ++s) {
      costs[i].staged[s].nondeterministic_backward = std::move(fastest[i].staged[s].backward);
    }
  }
}

/// Gives every phase the mean memory of a graph.
void set_graph_bytes(std::vector<UnitCost>& costs, const KeptGraphs& kept) {
  if (kept.empty()) return;
  Bytes bytes = 0;
  for (const std::unique_ptr<RecordedWork>& graph : kept) bytes += graph->bytes();
  const Bytes mean = bytes / std::ssize(kept);
  for (UnitCost& cost : costs) {
    for (std::size_t i = 0; i < kUnitPhases.size(); ++i) {
      for (PhaseCost* const phase : costs_of_phase(cost, i)) {
        if (phase->replay) phase->replay->graph_bytes = mean;
      }
    }
  }
}

/// Measures all costs, of backward with each kind of kernels that the device has.
std::vector<UnitCost> all_costs(const Model& model, const ProfileOptions& options, UnitCount& count,
                                UnitMeter& meter, bool both_kernels) {
  KeptGraphs kept;
  std::vector<UnitCost> costs =
      timed_costs(model, options, count, meter, /*deterministic=*/true, kept);
  if (both_kernels) {
    add_nondeterministic(costs,
                         timed_costs(model, options, count, meter, /*deterministic=*/false, kept));
  }
  set_graph_bytes(costs, kept);
  return costs;
}

/// Adds kernels to `costs`. Returns a note about the trace. Throws Error if the tracer does.
std::string add_kernels(const Model& model, const ProfileOptions& options, UnitCount& count,
                        const ProfileDevice& device, std::vector<UnitCost>& costs) {
  constexpr int kRepetitions = 3;  // about a second for the largest models
  std::vector<KernelTrace> traces;
  const auto measure = [&](UnitBench& bench) {
    return bench.run_traced(*device.tracer, kRepetitions, traces.emplace_back());
  };
  const std::string overhead =
      take_kernels(costs, ClassProfiler(model, count, device.meter, /*deterministic=*/true)
                              .costs(options.micro_batches, measure));
  Seconds own = 0;
  for (const KernelTrace& trace : traces) own += trace.overhead();
  if (options.traced) options.traced(std::move(traces));
  return fmt::format(
      "kernels by CUPTI {}, traced after the timing; {}; {} of overhead by CUPTI's own "
      "account",
      device.tracer->version(), overhead, format_seconds(own));
}

std::string try_to_add_kernels(const Model& model, const ProfileOptions& options, UnitCount& count,
                               const ProfileDevice& device, std::vector<UnitCost>& costs) {
  std::string note;
  try {
    note = add_kernels(model, options, count, device, costs);
  } catch (const Error& error) {
    note = fmt::format("kernels were not traced: {}", error.what());
  }
  if (options.remark) options.remark(note);
  return note;
}

}  // namespace

Profile profile_model(const Model& model, const ProfileOptions& options,
                      const ProfileDevice& device) {
  check_options(options);
  check_ranks(model, options);
  const ComputeThreads threads(options.compute_threads);
  Profile profile;
  profile.architecture = model.architecture;
  profile.device = device.name;
  profile.dtype = model.dtype;
  profile.sequence_length = options.sequence_length;
  profile.compute_threads = options.compute_threads;
  profile.batch_bytes_per_sample = batch_bytes(model.random_batch(1));
  profile.provenance = measured_here(options.command);
  profile.provenance.versions.insert(device.versions.begin(), device.versions.end());
  const Bytes before = device.meter.live();  // left by measurements of the device
  const auto classes = static_cast<std::int64_t>(representatives(model.architecture).size());
  const auto sizes = static_cast<std::int64_t>(options.micro_batches.size());
  profile.always_deterministic = device.meter.is_deterministic();
  const bool both_kernels = options.both_kernels && !profile.always_deterministic;
  UnitCount count(
      options.progress,
      classes * sizes * (1 + (both_kernels ? 1 : 0) + (device.tracer == nullptr ? 0 : 1)));
  profile.costs = all_costs(model, options, count, device.meter, both_kernels);
  profile.workspace_bytes = device.meter.live() - before;
  profile.launch_seconds = device.launch_seconds;
  profile.matmul_flops_per_second = device.matmul_flops_per_second;
  if (device.tracer != nullptr) {
    profile.provenance.notes = try_to_add_kernels(model, options, count, device, profile.costs);
  }
  if (!options.expert_ranks.empty()) {
    std::string& notes = profile.provenance.notes;
    notes += fmt::format("{}stages of experts: balanced routing, and room for {} times its rows",
                         notes.empty() ? "" : "; ", options.expert_capacity);
  }
  profile.validate("profile");
  return profile;
}

Profile profile_model(const Model& model, const ProfileOptions& options) {
  HostMeter meter;
  return profile_model(model, options, {meter, processor_name(), {}});
}

Profile profile_language_model(const Architecture& architecture, DataType dtype,
                               const ProfileOptions& options, const ProfileDevice& device) {
  check_options(options);
  require_units(architecture);
  unmeasured_profile(architecture, dtype, options.sequence_length, 1).validate("arguments");
  const Model model = make_language_model(shortened(architecture), dtype, options.sequence_length);
  Profile profile = profile_model(model, options, device);
  profile.architecture = architecture;
  profile.validate("profile");
  return profile;
}

Profile profile_language_model(const Architecture& architecture, DataType dtype,
                               const ProfileOptions& options) {
  HostMeter meter;
  return profile_language_model(architecture, dtype, options, {meter, processor_name(), {}});
}

}  // namespace athanor
