// SPDX-License-Identifier: Apache-2.0
// Measures one unit of each class, each on what the unit before it puts out.
#pragma once

#include "calibrate/profile/bound_units.hpp"
#include "calibrate/profile/unit_bench.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "executor/units/language_model.hpp"
#include "sim/base/progress.hpp"
#include "sim/model/profile.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Returns the first unit of each class, in execution order.
[[nodiscard]] std::vector<int> representatives(const Architecture& architecture);

/// Counts units that are measured: once for each kind of kernels, and once more under a trace.
class UnitCount {
 public:
  UnitCount(const OnProgress& progress, std::int64_t total) : progress_(progress), total_(total) {}
  void begin(const std::string& unit);

 private:
  const OnProgress& progress_;
  std::int64_t total_, done_ = 0;
};

/// Runs the representatives in order. A unit's input is the output of the unit before it, or of
/// that unit's representative. Leaves nothing of the model on the device.
class ClassProfiler {
 public:
  ClassProfiler(const Model& model, UnitCount& count, UnitMeter& meter, bool deterministic)
      : model_(model), count_(count), meter_(meter), bound_(model, meter, deterministic) {}

  using Measure = std::function<UnitBenchResult(UnitBench&)>;
  /// A unit with what it runs on.
  struct Site {
    int unit;
    const torch::Tensor& input;
    const Batch& batch;
    BoundUnits& bound;
  };
  /// Adds to the costs of a unit those of other ways to run it.
  using AddOthers = std::function<void(const Site& site, UnitCost& cost)>;

  /// Measures every class at every micro-batch size.
  [[nodiscard]] std::vector<UnitCost> costs(std::span<const std::int64_t> micro_batches,
                                            const Measure& measure,
                                            const AddOthers& add_others = nullptr);

 private:
  void add_costs(std::int64_t micro_batch, const Measure& measure, const AddOthers& add_others,
                 std::vector<UnitCost>& costs);
  [[nodiscard]] UnitBenchResult measure_unit(int unit, const torch::Tensor& input,
                                             const Batch& batch, const Measure& measure);
  [[nodiscard]] const std::string& class_of(int unit) const;
  [[nodiscard]] Batch batch_on_device(std::int64_t micro_batch);

  const Model& model_;
  UnitCount& count_;
  UnitMeter& meter_;
  BoundUnits bound_;
};

}  // namespace athanor
