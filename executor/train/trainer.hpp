// SPDX-License-Identifier: Apache-2.0
// Trains a model under a plan. athanor-train and users' own programs call it.
#pragma once

#include "executor/backend/backend.hpp"
#include "executor/batches/batch_source.hpp"
#include "executor/job/step_report.hpp"
#include "executor/memory/shared_memory.hpp"
#include "executor/train/lr_schedule.hpp"
#include "executor/train/optimizer_ops.hpp"
#include "executor/train/training_state.hpp"
#include "executor/units/model.hpp"
#include "sim/base/progress.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/timeline.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

class JobWatch;

/// Memory in which state outlives its processes, for a plan that takes snapshots.
struct SnapshotOptions {
  std::string run;  ///< identity of the run, in hexadecimal digits; it names the memory
  std::string folder = kSharedMemoryFolder;
  bool resumes = false;         ///< takes over the memory of ranks that were killed
  std::vector<bool> lost = {};  ///< [rank]: those whose memory is lost too; empty: none
  int machine_ranks = 0;  ///< ranks on each machine, for a plan with copies on others; 0: they
                          ///< do not fill one machine after the other
  /// Describes the run after so many steps, for whoever resumes it.
  std::function<std::string(std::int64_t steps)> describe = [](std::int64_t) { return ""; };
};

struct TrainOptions {
  LearningRateSchedule schedule;
  OptimizerOptions optimizer;
  std::uint64_t seed = 0;   ///< for fresh weights
  Bytes device_memory = 0;  ///< host backend: limit of the device arena; 0 = none
  int ranks_per_node = 0;   ///< ranks that share this host's memory; 0: all
  std::string nvme_folder;  ///< for plans that keep optimizer state on NVMe
  /// Without it, the state of a plan that takes snapshots ends with its process all the same.
  std::optional<SnapshotOptions> snapshot = std::nullopt;
  /// Notices failures of other ranks, and requests to stop. It outlives the trainer. Null: none.
  JobWatch* watch = nullptr;
  /// Called on the calling thread while the state is loaded, with the share of elements.
  OnProgress progress = nullptr;
  Seconds deadline = 20;  ///< time without progress after which a rank counts as hanging
};

/// One rank of a training job. Every rank constructs it with the same arguments and makes the same
/// calls in the same order. A failure of this rank or, with a watch, of another one ends
/// train() with an Error that names the rank; the job cannot go on after that.
class Trainer {
 public:
  using OnStep = std::function<void(const StepReport&)>;

  /// Allocates all memory. Throws InputError when the plan needs an option that is missing, or when
  /// plan, profile, model and number of ranks do not belong together. Throws OutOfDeviceMemory when
  /// the limit is too small.
  Trainer(Model model, const Profile& profile, const Plan& plan, BatchSource batches,
          const TrainOptions& options, Backend& backend);
  /// Trains on the host backend, which it makes for `collectives`.
  Trainer(Model model, const Profile& profile, const Plan& plan, BatchSource batches,
          const TrainOptions& options, Collectives& collectives);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Starts from fresh weights (initial_weights) at step 0.
  void start_fresh();
  /// Starts from weights of the caller's, with moments of zero.
  void start_with(const WeightsOfUnit& weights);
  /// Starts from given state, such as a checkpoint, after `step` steps.
  void start_from(const StateReader& state, std::int64_t step);

  /// Goes on in the memory of ranks that were killed: brings it to `steps` steps, to which all of
  /// them can be brought (find_run_memory). Every rank calls it. Throws Error where the memory is
  /// damaged.
  void start_from_memory(std::int64_t steps);
  /// Returns what the memory knows about a step whose processes were killed before they reported
  /// it; nothing where it knows nothing.
  [[nodiscard]] std::optional<StepReport> remembered(std::int64_t step) const;
  /// Frees the memory at an orderly end. Without this call it outlives the trainer.
  void forget_snapshot();

  /// Runs steps until `end` steps are done in total, and returns when all lanes are idle.
  /// `on_step` is called on the calling thread, in order. Where the watch of some rank wants to
  /// stop or to pause, all ranks return after the same earlier step, and is_stopping() is true on
  /// all.
  void train_until(std::int64_t end, const OnStep& on_step);
  /// Makes is_stopping() false again. Every rank calls it, once all know that it was a pause.
  void go_on();

  /// Evaluates the model as it is after steps_done() steps: forward alone, with the plan's global
  /// batch and in the memory of training. Every rank calls it with the same source. Returns nothing
  /// where the watch of some rank wants to stop; is_stopping() is then true on all.
  [[nodiscard]] std::optional<EvaluationReport> evaluate(const EvaluationSource& source);

  [[nodiscard]] std::int64_t steps_done() const noexcept;
  [[nodiscard]] bool is_stopping() const noexcept;
  [[nodiscard]] const Program& program() const noexcept;
  /// Memory that the pools hold by tier; for the GPU, the device's measured peak.
  [[nodiscard]] TierBytes peak_bytes() const;
  /// Returns the ranges of the state that this rank saves.
  [[nodiscard]] std::vector<StateRange> ranges_to_save() const;
  /// Returns the same ranges under a plan with Snapshot::Versions. They read the version of the
  /// steps that are done, on any thread, also while the next step runs, but not the one after it.
  [[nodiscard]] std::vector<StateRange> ranges_of_version() const;
  /// Returns every rank's value, [rank], once all have called.
  [[nodiscard]] std::vector<std::uint64_t> exchange(std::uint64_t value);
  /// Returns one unit's weights in fp32, in its flat order. Every rank calls and gets them.
  [[nodiscard]] std::vector<float> unit_weights(int unit);
  /// Returns the measured timeline of the latest steps. Every rank calls and gets it.
  [[nodiscard]] Timeline timeline();

 private:
  class Rank;
  std::unique_ptr<Backend> own_backend_;
  std::unique_ptr<Rank> rank_;
};

}  // namespace athanor
