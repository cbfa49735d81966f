// SPDX-License-Identifier: Apache-2.0
// The files that `athanor-train` needs for the tiny model, and the files that a run leaves.
#pragma once

#include "sim/model/plan.hpp"
#include "tests/train/processes.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::test {

class TrainFixture {
 public:
  explicit TrainFixture(DataType dtype = DataType::Float32);
  /// Without an architecture it is tiny_gpt2().
  TrainFixture(DataType dtype, Architecture architecture);

  /// Writes the plan as NAME.json and returns its path.
  [[nodiscard]] std::string write_plan(const std::string& name, const Plan& plan) const;
  /// Returns the command `athanor-train` with plan, model, data, profile, steps and run folder.
  [[nodiscard]] std::vector<std::string> command(const std::string& plan, std::int64_t steps,
                                                 const std::string& out) const;
  /// Returns the command on a machine that is described, so that its steps can be predicted.
  [[nodiscard]] std::vector<std::string> on_platform(std::vector<std::string> command) const;
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  [[nodiscard]] const Architecture& architecture() const noexcept { return architecture_; }

  /// Returns a sharded plan with everything on the host and two slots.
  [[nodiscard]] Plan offloaded_plan(int world_size, std::int64_t global_batch) const;
  /// Returns that plan with optimizer state on NVMe, and parameters of all units but the first.
  [[nodiscard]] Plan nvme_plan(int world_size, std::int64_t global_batch) const;
  [[nodiscard]] Plan replicated_plan(int world_size, std::int64_t global_batch) const;

 private:
  TemporaryFolder folder_;
  Architecture architecture_;
  DataType dtype_;
};

/// Returns the command with another value of an option that it has.
[[nodiscard]] std::vector<std::string> replaced(std::vector<std::string> command,
                                                const std::string& option,
                                                const std::string& value);

/// Returns the command with more words behind it.
[[nodiscard]] std::vector<std::string> with_words(std::vector<std::string> command,
                                                  const std::vector<std::string>& words);

/// Runs a program to its end, which must be good, and returns what it printed.
std::string output_of(const std::vector<std::string>& command);

/// Reads "step", "loss_metrics/global_avg_loss" and "grad_norm" of every whole line of a run's
/// metrics.jsonl.
struct LossCurve {
  std::vector<std::int64_t> steps;
  std::vector<double> losses, norms;
  bool operator==(const LossCurve&) const = default;
};
[[nodiscard]] LossCurve loss_curve(const std::string& run);

/// How many steps a run has recorded so far. Costs little, for those who wait for one.
[[nodiscard]] std::int64_t num_steps(const std::string& run);

}  // namespace athanor::test
