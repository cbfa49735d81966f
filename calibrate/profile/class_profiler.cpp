// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/class_profiler.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

namespace athanor {

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

void UnitCount::begin(const std::string& unit) {
  if (progress_) progress_(unit, done_, total_);
  ++done_;
}

std::vector<UnitCost> ClassProfiler::costs(std::span<const std::int64_t> micro_batches,
                                           const Measure& measure, const AddOthers& add_others) {
  std::vector<UnitCost> costs;
  for (const std::int64_t micro_batch : micro_batches) {
    add_costs(micro_batch, measure, add_others, costs);
  }
  return costs;
}

void ClassProfiler::add_costs(std::int64_t micro_batch, const Measure& measure,
                              const AddOthers& add_others, std::vector<UnitCost>& costs) {
  const Batch batch = batch_on_device(micro_batch);
  std::map<std::string, torch::Tensor> outputs;
  for (const int unit : representatives(model_.architecture)) {
    const std::string& unit_class = class_of(unit);
    count_.begin(fmt::format("{}, micro-batch {}", unit_class, micro_batch));
    const torch::Tensor input = unit == 0 ? torch::Tensor() : outputs.at(class_of(unit - 1));
    UnitBenchResult result = measure_unit(unit, input, batch, measure);
    if (add_others) add_others({unit, input, batch, bound_}, result.cost);
    result.cost.unit_class = unit_class;
    result.cost.micro_batch = micro_batch;
    costs.push_back(result.cost);
    outputs[unit_class] = std::move(result.output);
  }
}

UnitBenchResult ClassProfiler::measure_unit(int unit, const torch::Tensor& input,
                                            const Batch& batch, const Measure& measure) {
  UnitBench bench(model_, bound_, unit, input, batch, meter_);
  return measure(bench);
}

const std::string& ClassProfiler::class_of(int unit) const {
  return model_.architecture.units[static_cast<std::size_t>(unit)].unit_class;
}

Batch ClassProfiler::batch_on_device(std::int64_t micro_batch) {
  Batch batch = model_.random_batch(micro_batch);
  meter_.run([&] {
    batch.inputs = batch.inputs.to(meter_.device());
    if (batch.targets.defined()) batch.targets = batch.targets.to(meter_.device());
  });
  return batch;
}

}  // namespace athanor
