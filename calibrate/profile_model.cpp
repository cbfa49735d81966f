// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile_model.hpp"

#include "calibrate/bound_units.hpp"
#include "calibrate/machine.hpp"
#include "calibrate/unit_bench.hpp"
#include "executor/units/model.hpp"
#include "sim/model/errors.hpp"

#include <fmt/format.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <string>
#include <utility>

namespace athanor {
namespace {

/// LibTorch's threads for the calling thread, put back in the end.
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

void check_options(const ProfileOptions& options) {
  constexpr int kMaxThreads = 4096;
  constexpr std::int64_t kMaxMicroBatch = 1'000'000;
  if (options.compute_threads < 1 || options.compute_threads > kMaxThreads) {
    throw InputError("--compute-threads", fmt::format("{} threads", options.compute_threads),
                     fmt::format("Use 1 to {}.", kMaxThreads));
  }
  if (options.micro_batches.empty()) {
    throw InputError("--micro-batches", "there is none", "Write sizes like 1,2,4.");
  }
  std::set<std::int64_t> seen;
  for (const std::int64_t size : options.micro_batches) {
    if (size < 1 || size > kMaxMicroBatch || !seen.insert(size).second) {
      throw InputError("--micro-batches", fmt::format("{} is out of range or there twice", size),
                       fmt::format("Use different sizes from 1 to {}.", kMaxMicroBatch));
    }
  }
}

Bytes batch_bytes(const Batch& batch) {
  Bytes bytes = static_cast<Bytes>(batch.inputs.nbytes());
  if (batch.targets.defined()) {
    bytes += static_cast<Bytes>(batch.targets.nbytes());
  }
  return bytes;
}

/// The first unit of each class, in execution order.
std::vector<int> representatives(const Architecture& architecture) {
  std::set<std::string> seen;
  std::vector<int> units;
  for (std::size_t unit = 0; unit < architecture.units.size(); ++unit) {
    if (seen.insert(architecture.units[unit].unit_class).second) {
      units.push_back(static_cast<int>(unit));
    }
  }
  return units;
}

/// Runs the representatives in order. A unit's input is the output of the unit before it, or of
/// that unit's representative.
class ClassProfiler {
 public:
  ClassProfiler(const Model& model, const ProfileOptions& options)
      : model_(model), options_(options), bound_(model) {}

  void add_costs(std::int64_t micro_batch, std::vector<UnitCost>& costs) {
    const Batch batch = model_.random_batch(micro_batch);
    std::map<std::string, torch::Tensor> outputs;
    for (const int unit : representatives(model_.architecture)) {
      const std::string& unit_class = class_of(unit);
      if (options_.progress) {
        options_.progress(fmt::format("{}, micro-batch {}", unit_class, micro_batch));
      }
      const torch::Tensor input = unit == 0 ? torch::Tensor() : outputs.at(class_of(unit - 1));
      UnitBenchResult result = UnitBench(model_, bound_, unit, input, batch).run(options_.rule);
      result.cost.unit_class = unit_class;
      result.cost.micro_batch = micro_batch;
      costs.push_back(result.cost);
      outputs[unit_class] = std::move(result.output);
    }
  }

 private:
  [[nodiscard]] const std::string& class_of(int unit) const {
    return model_.architecture.units[static_cast<std::size_t>(unit)].unit_class;
  }

  const Model& model_;
  const ProfileOptions& options_;
  BoundUnits bound_;
};

}  // namespace

Profile profile_model(const Model& model, const ProfileOptions& options) {
  check_options(options);
  const ComputeThreads threads(options.compute_threads);
  Profile profile;
  profile.architecture = model.architecture;
  profile.device = processor_name();
  profile.dtype = model.dtype;
  profile.sequence_length = options.sequence_length;
  profile.compute_threads = options.compute_threads;
  profile.batch_bytes_per_sample = batch_bytes(model.random_batch(1));
  profile.provenance.source = Source::Measured;
  profile.provenance.date = today();
  profile.provenance.command = options.command;
  profile.provenance.versions = software_versions();
  ClassProfiler profiler(model, options);
  for (const std::int64_t micro_batch : options.micro_batches) {
    profiler.add_costs(micro_batch, profile.costs);
  }
  profile.validate("profile");
  return profile;
}

Profile profile_language_model(const Architecture& architecture, DataType dtype,
                               const ProfileOptions& options) {
  check_options(options);
  unmeasured_profile(architecture, dtype, options.sequence_length, 1).validate("arguments");
  return profile_model(make_language_model(architecture, dtype, options.sequence_length), options);
}

}  // namespace athanor
