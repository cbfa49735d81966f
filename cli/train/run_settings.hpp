// SPDX-License-Identifier: Apache-2.0
// The choices that shape a run's losses, and its place in the data, as checkpoints hold them; and
// the options that have no effect.
#pragma once

#include "cli/train/inputs.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/data/sample_order.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace athanor::cli {

/// Returns the choices by name. The data is known by its length and parts of its content.
[[nodiscard]] std::map<std::string, std::string> settings_of(const TrainArguments& arguments,
                                                             const TrainInputs& inputs);

/// Returns "lr: 0.003 -> 0.001" for every choice that both have and that differs.
[[nodiscard]] std::vector<std::string> differences(const std::map<std::string, std::string>& before,
                                                   const std::map<std::string, std::string>& now);

/// Returns a remark for each option that was given and has no effect in this run. A script may give
/// it to many runs, so it is no error, but its user should know.
[[nodiscard]] std::vector<std::string> idle_options(const TrainArguments& arguments,
                                                    const TrainInputs& inputs);

/// Place in the stream of samples at which a run starts, counted in this plan's samples.
struct DataStart {
  std::int64_t sample = 0;
  std::string remark;  ///< says what is not exact about it; empty: nothing
};
[[nodiscard]] DataStart data_start(const TrainArguments& arguments, const TrainInputs& inputs);

/// Returns the sample of the data that would have been the first, had all steps been this plan's.
[[nodiscard]] std::int64_t shift_of(const TrainInputs& inputs, const DataStart& start);

/// The part of a checkpoint that stays the same during a run.
struct RunIdentity {
  std::string run;
  std::uint64_t seed = 0;
  std::map<std::string, std::string> settings;
};
/// Returns the state after `step` steps without its files. `shift`: shift_of().
[[nodiscard]] CheckpointState state_of(const TrainInputs& inputs, const RunIdentity& run,
                                       std::int64_t step, std::int64_t shift);

/// Order of the data. A resumed run keeps its seed.
[[nodiscard]] SampleOrder sample_order(const TrainArguments& arguments, const TrainInputs& inputs);

}  // namespace athanor::cli
