// SPDX-License-Identifier: Apache-2.0
// Inputs of a run, all read and validated before anything starts.
#pragma once

#include "cli/retune/adopted_plans.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/run_start.hpp"
#include "executor/data/training_data.hpp"
#include "executor/io/hf_folder_reader.hpp"
#include "sim/model/memory.hpp"

#include <memory>
#include <optional>

namespace athanor::cli {

struct TrainInputs {
  Plan plan;
  Plan asked;                          ///< the one of --plan
  std::optional<AdoptedPlan> adopted;  ///< source of `plan` where the run has changed it
  Profile profile;
  std::optional<Platform> platform;
  Architecture architecture;
  std::shared_ptr<const HfFolder> weights;  ///< null: fresh weights
  std::shared_ptr<const TrainingData> data;
  std::shared_ptr<const TrainingData> eval_data;  ///< null: none
  RunStart start;
  MemoryLimits limits;        ///< without `checkpoint_copy`
  Bytes checkpoint_copy = 0;  ///< host memory of a node that --async-checkpoint copy takes

  /// A plan for several nodes has only some of its ranks on this one.
  [[nodiscard]] int ranks_per_node() const {
    return platform ? platform->ranks_per_node(plan.world_size) : plan.world_size;
  }
};

/// Reads and checks all inputs and the places for outputs, and checks that the plan fits. Settles
/// the steps, which may follow from the data. One rank `looks_closely`, which takes longer. Throws
/// InputError and InfeasibleError.
[[nodiscard]] TrainInputs read_inputs(TrainArguments& arguments, bool looks_closely);

/// Returns `inputs` under a plan to which the run changes. Throws InputError and InfeasibleError
/// where it cannot run.
[[nodiscard]] TrainInputs inputs_under(const TrainArguments& arguments, const TrainInputs& inputs,
                                       const AdoptedPlan& adopted);

/// Finds the checkpoint again from which the run goes on, under the plan of `inputs`.
void start_again(const TrainArguments& arguments, TrainInputs& inputs);

/// Decides what the run starts from where that takes all ranks; every rank calls it, once
/// connected.
void ask_ranks(const TrainArguments& arguments, Collectives& ranks, TrainInputs& inputs);

/// Returns whether to run on GPUs.
[[nodiscard]] bool uses_cuda(const TrainArguments& arguments, const TrainInputs& inputs);

/// Throws InputError where the plan has copies on other machines, and ranks are on GPUs or are
/// started on this machine alone.
void check_copies(const TrainArguments& arguments, const TrainInputs& inputs, bool launches);

/// Returns what the weights start from: "from fresh weights", for example.
[[nodiscard]] std::string describe_start(const TrainInputs& inputs);
/// Returns a line on the units whose weights do not travel, and on what that means for losses;
/// empty where all do.
[[nodiscard]] std::string describe_patterns(const Plan& plan);
/// Returns a line on what moments in bf16 or int8 mean for losses; empty where moments are fp32.
[[nodiscard]] std::string describe_moments(const Plan& plan);
/// Returns a line on what kernels that are not deterministic mean for losses; empty where the plan
/// has none.
[[nodiscard]] std::string describe_kernels(const TrainInputs& in);

/// Returns a line on CUDA graphs; empty where the plan has none.
[[nodiscard]] std::string describe_graphs(const Plan& plan, bool cuda);

/// Returns what a dry run says beside its text: the remarks of a start, and what this machine
/// lacks.
[[nodiscard]] std::vector<std::string> remarks_of_dry_run(const TrainArguments& arguments,
                                                          const TrainInputs& inputs);

/// Returns the text that a dry run prints.
[[nodiscard]] std::string describe(const TrainInputs& inputs);

}  // namespace athanor::cli
