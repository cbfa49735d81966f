// SPDX-License-Identifier: Apache-2.0
#include "executor/train/trainer.hpp"

#include "executor/backend/host_backend.hpp"
#include "executor/backend/host_device.hpp"
#include "executor/memory/memory_check.hpp"
#include "executor/snapshot/peer_copies.hpp"
#include "executor/snapshot/rank_memory.hpp"
#include "executor/snapshot/redo_log.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "executor/snapshot/snapshot_log.hpp"
#include "executor/train/evaluation.hpp"
#include "executor/train/op_runner.hpp"
#include "executor/train/rank_lanes.hpp"
#include "executor/train/timeline_recorder.hpp"
#include "executor/units/initial_weights.hpp"
#include "executor/watch/job_watch.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/lowering/lowering.hpp"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace athanor {
namespace {

bool has_lost(const SnapshotOptions& snapshot, int rank) {
  return !snapshot.lost.empty() && snapshot.lost.at(static_cast<std::size_t>(rank));
}

const Plan& checked(const Plan& plan, const TrainOptions& options, const Collectives& collectives) {
  check_nvme_folder(plan, options.nvme_folder);
  if (plan.world_size != collectives.world_size()) {
    throw InputError("plan:world_size",
                     fmt::format("the plan is for {} processes, but {} were started",
                                 plan.world_size, collectives.world_size()),
                     fmt::format("Start {} (--gpus {}), or make a plan for {} (athanor tune "
                                 "--gpus {}).",
                                 plan.world_size, plan.world_size, collectives.world_size(),
                                 collectives.world_size()));
  }
  return plan;
}

/// Takes the memory that outlives this process; none where the plan or the caller asks for none.
std::optional<SharedMemory> take_memory(const Program& program, const Plan& plan, int rank,
                                        const TrainOptions& options) {
  if (plan.snapshot == Snapshot::None || !options.snapshot) return std::nullopt;
  const SnapshotOptions& snapshot = *options.snapshot;
  return take_rank_memory(memory_path(snapshot.folder, snapshot.run, rank),
                          shared_bytes(static_bytes(program)),
                          snapshot.resumes && !has_lost(snapshot, rank));
}

}  // namespace

class Trainer::Rank {
 public:
  Rank(Model model, const Profile& profile, const Plan& plan, BatchSource batches,
       const TrainOptions& options, Backend& backend)
      : options_(options),
        backend_(backend),
        model_(std::move(model)),
        profile_(profile),
        plan_(checked(plan, options, backend.collectives())),
        program_(lower(profile, plan_)),
        logical_(logical_elements(model_.architecture)),
        shared_(take_memory(program_, plan_, backend.collectives().rank(), options)),
        memory_(program_, plan_, backend.collectives().rank(), backend.device(),
                options.nvme_folder, shared_ ? &*shared_ : nullptr),
        log_(plan_.snapshot == Snapshot::None
                 ? nullptr
                 : std::make_unique<SnapshotLog>(memory_, program_, plan_)),
        redo_(plan_.snapshot == Snapshot::Redo
                  ? std::make_unique<RedoLog>(*log_, memory_, program_, plan_)
                  : nullptr),
        peers_(plan_.snapshot_copies == 1 ? nullptr
                                          : make_peer_copies(backend.collectives(), machine_ranks(),
                                                             *log_, memory_, program_)),
        context_{program_,
                 plan_,
                 memory_,
                 backend.device(),
                 backend.collectives(),
                 backend.host_collectives(),
                 options.watch,
                 log_.get(),
                 peers_.get(),
                 redo_.get()},
        unit_runners_(make_unit_runners(model_, plan_, program_, context_.collectives.rank(),
                                        context_.device)),
        runner_(context_, model_.architecture, unit_runners_, std::move(batches),
                options.optimizer),
        recorder_(program_) {
    torch::set_num_threads(plan_.compute_threads);
    Collectives& ranks = context_.host_collectives;
    ranks.set_cancel_flag(&cancelled_);
    for (std::int64_t i = 0; i < kStepStates; ++i) {
      states_.push_back({StepScalars(program_, plan_, ranks.rank(), backend.device())});
    }
    ranks.barrier();
    recorder_ = TimelineRecorder(program_);
  }

  ~Rank() {
    lanes_.reset();
    context_.host_collectives.set_cancel_flag(nullptr);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void start(const StartState& state, std::int64_t step);
  void start_from_memory(std::int64_t steps);
  std::optional<StepReport> remembered(std::int64_t step) const;
  void forget_snapshot() const {
    if (shared_) shared_->remove();
  }
  void together(const std::function<void()>& collective_call);
  void train_until(std::int64_t end, const OnStep& on_step);
  std::optional<EvaluationReport> evaluate(const EvaluationSource& source);

  Model& model() { return model_; }
  const TrainOptions& options() const { return options_; }
  const Program& program() const { return program_; }
  const RankContext& context() const { return context_; }
  const std::vector<std::int64_t>& logical() const { return logical_; }
  const TimelineRecorder& recorder() const { return recorder_; }
  std::int64_t steps_done() const { return steps_done_; }
  bool is_stopping() const { return is_stopping_; }
  void go_on() { is_stopping_ = false; }

  /// Returns the memory in which weights may be made ahead at a start. It is a quarter of what is
  /// left beside the state of the node's ranks.
  Bytes room_for_weights() const {
    const int ranks = options_.ranks_per_node > 0 ? options_.ranks_per_node : plan_.world_size;
    const Bytes held = memory_.bytes().pinned + memory_.bytes().host;
    const Bytes share = usable_memory() / ranks;
    return std::max<Bytes>(0, share - held) / 4;
  }

  std::vector<StateRange> ranges_of_version() const {
    assert(plan_.snapshot == Snapshot::Versions && "the next step would change them");
    return athanor::ranges_to_save(context_, logical_, steps_done_, versions_);
  }

  TierBytes peak_bytes() const {
    TierBytes peak = memory_.bytes();
    peak.gpu = context_.device.peak();
    return peak;
  }

 private:
  void restore(std::int64_t steps);
  int machine_ranks() const { return options_.snapshot ? options_.snapshot->machine_ranks : 0; }
  SnapshotIdentity identity() const;
  StepState& state_of(std::int64_t step) {
    return states_[static_cast<std::size_t>(step) % states_.size()];
  }
  void enter(RankPhase phase) const;
  void prepare(std::int64_t step);
  void start_lanes(std::int64_t step);
  StepReport report(std::int64_t step, bool continuous);

  const TrainOptions options_;
  Backend& backend_;
  Model model_;
  const Profile profile_;
  const Plan plan_;
  const Program program_;
  const std::vector<std::int64_t> logical_;
  std::optional<SharedMemory> shared_;
  MemoryPools memory_;
  /// Reads versions, which lie on the host, beside the lanes that have the device.
  mutable HostDevice versions_;
  std::unique_ptr<SnapshotLog> log_;   ///< null: the plan takes no snapshots
  std::unique_ptr<RedoLog> redo_;      ///< null: they are none of Snapshot::Redo
  std::unique_ptr<PeerCopies> peers_;  ///< null: the plan has no copies on other machines
  RankContext context_;
  std::vector<UnitRunner> unit_runners_;
  OpRunner runner_;
  TimelineRecorder recorder_;
  std::atomic<bool> cancelled_ = false;
  std::vector<StepState> states_;  ///< [step % size], a ring
  std::int64_t first_step_ = 0;    ///< first of the lanes
  std::int64_t steps_done_ = 0;
  bool is_stopping_ = false;
  std::unique_ptr<RankLanes> lanes_;
};

void Trainer::Rank::prepare(std::int64_t step) {
  StepState& state = state_of(step);
  state.step = state.trained = step;
  state.learning_rate = static_cast<float>(options_.schedule.at(step));
  state.makes_snapshot = !log_ || log_->keeps_version(step);
  state.before = step == first_step_ ? nullptr : &state_of(step - 1);
}

StepReport Trainer::Rank::report(std::int64_t step, bool continuous) {
  const Seconds previous_end = continuous ? recorder_.step_end(step - 1) : 0;
  recorder_.finish_step(step, continuous);
  const StepScalars& scalars = state_of(step).scalars;
  scalars.require_room("step", step + 1);
  const double loss = scalars.mean_loss();
  if (!std::isfinite(loss)) {
    throw Error(
        fmt::format("the loss of step {} is {}. Lower --lr, or check the data.", step + 1, loss));
  }
  StepReport report{.step = step + 1,
                    .loss = loss,
                    .gradient_norm = std::nullopt,
                    .learning_rate = options_.schedule.at(step),
                    .seconds = recorder_.step_end(step) -
                               (continuous ? previous_end : recorder_.step_start(step)),
                    .device_peak_bytes = context_.device.peak(),
                    .graph_bytes = runner_.compute().recorded_bytes()};
  if (plan_.clipping != Clipping::None) {
    report.gradient_norm = scalars.clipping(Home::Host)->norm;
  }
  return report;
}

void Trainer::Rank::start(const StartState& state, std::int64_t step) {
  lanes_.reset();
  if (log_) log_->spoil();
  if (shared_) shared_->keep(false);  // nobody can go on from it
  load_state(context_, logical_, step, state, options_.progress);
  keep_state_of_start(context_, step);
  if (redo_) redo_->begin(step);
  if (log_) {
    log_->begin(identity(), options_.snapshot.value_or(SnapshotOptions{}).describe(step), step);
    if (shared_) shared_->keep(true);
  }
  start_lanes(step);
}

SnapshotIdentity Trainer::Rank::identity() const {
  const Collectives& ranks = context_.collectives;
  return {.run = options_.snapshot ? options_.snapshot->run : "",
          .rank = ranks.rank(),
          .world_size = ranks.world_size(),
          .layout = layout_hash(program_, plan_),
          .bytes = shared_ ? shared_->bytes() : 0};
}

/// Gets the state of `steps` for the ranks that have lost theirs. On these, it counts as loaded.
void Trainer::Rank::restore(std::int64_t steps) {
  const SnapshotOptions& snapshot = *options_.snapshot;
  const bool is_lost = has_lost(snapshot, context_.collectives.rank());
  if (is_lost) log_->spoil();
  std::int64_t loaded = 0;
  together([&] { loaded = peers_->restore(steps, snapshot.lost); });
  if (!is_lost) return;
  log_->begin_with_marks(identity(), snapshot.describe(steps), loaded);
  shared_->keep(true);
}

void Trainer::Rank::start_from_memory(std::int64_t steps) {
  assert(log_ && shared_ && options_.snapshot->resumes);
  lanes_.reset();
  if (redo_) {
    const OptimizerOps& optimizer = runner_.optimizer();
    redo_->roll_forward(steps,
                        [&](std::int32_t unit, std::int32_t chunk, const SnapshotMark& mark) {
                          optimizer.redo(unit, chunk, mark);
                        });
  } else {
    if (!has_lost(*options_.snapshot, context_.collectives.rank())) {
      log_->go_back_to_version(steps);
    }
    if (!options_.snapshot->lost.empty() && peers_) restore(steps);
  }
  restore_kept_state(context_, steps);
  together([&] { publish_parameters(context_, steps); });
  start_lanes(steps);
}

std::optional<StepReport> Trainer::Rank::remembered(std::int64_t step) const {
  const std::span<const double> losses = log_ ? log_->losses(step) : std::span<const double>();
  if (losses.empty()) return std::nullopt;
  StepReport report{.step = step,
                    .loss = states_.front().scalars.mean_of(losses),
                    .gradient_norm = std::nullopt,
                    .learning_rate = options_.schedule.at(step - 1)};
  if (plan_.clipping != Clipping::None) report.gradient_norm = log_->mark(step).clipping->norm;
  return report;
}

void Trainer::Rank::start_lanes(std::int64_t step) {
  context_.device.reset_peak();
  first_step_ = steps_done_ = step;
  lanes_ = std::make_unique<RankLanes>(
      context_, runner_,
      [this](std::int64_t of_step) -> const StepState& { return state_of(of_step); }, backend_,
      cancelled_,
      RankLanes::Options{
          .first_step = step, .deadline = options_.deadline, .recorder = &recorder_});
}

void Trainer::Rank::enter(RankPhase phase) const {
  if (context_.watch != nullptr) context_.watch->progress().phase = phase;
}

void Trainer::Rank::train_until(std::int64_t end, const OnStep& on_step) {
  const std::int64_t first = steps_done_;
  enter(RankPhase::Stepping);
  std::int64_t prepared = first;
  for (std::int64_t step = first; step < end; ++step) {
    for (; prepared < std::min(end, step + kStepsAhead); ++prepared) prepare(prepared);
    lanes_->release_until(prepared);
    lanes_->wait_for_step(step);
    steps_done_ = step + 1;
    on_step(report(step, step > first));
    // All ranks know of the same wishes, and all have released the same steps.
    is_stopping_ |= state_of(step).scalars.is_stop_wished();
    if (is_stopping_) end = std::min(end, prepared);
  }
  enter(RankPhase::BetweenSteps);
}

std::optional<EvaluationReport> Trainer::Rank::evaluate(const EvaluationSource& source) {
  enter(RankPhase::Stepping);
  const EvaluationSite site{context_,   profile_,          unit_runners_, backend_,
                            cancelled_, options_.deadline, steps_done_};
  const std::optional<EvaluationReport> evaluation = athanor::evaluate(site, source);
  lanes_->watch();
  enter(RankPhase::BetweenSteps);
  is_stopping_ |= !evaluation;
  return evaluation;
}

void Trainer::Rank::together(const std::function<void()>& collective_call) {
  try {
    collective_call();
  } catch (const std::exception&) {
    // When the watchdog cancelled the call, its message says why.
    if (lanes_) lanes_->throw_failure();
    throw;
  }
}

Trainer::Trainer(Model model, const Profile& profile, const Plan& plan, BatchSource batches,
                 const TrainOptions& options, Backend& backend)
    : rank_(std::make_unique<Rank>(std::move(model), profile, plan, std::move(batches), options,
                                   backend)) {}

Trainer::Trainer(Model model, const Profile& profile, const Plan& plan, BatchSource batches,
                 const TrainOptions& options, Collectives& collectives)
    : own_backend_(std::make_unique<HostBackend>(collectives, options.device_memory)),
      rank_(std::make_unique<Rank>(std::move(model), profile, plan, std::move(batches), options,
                                   *own_backend_)) {}

Trainer::~Trainer() = default;

void Trainer::start_fresh() {
  const Model& model = rank_->model();
  const std::uint64_t seed = rank_->options().seed;
  const auto read = [&](std::int32_t unit, StatePart /*master*/, std::int64_t offset,
                        std::span<float> out) {
    initial_weights(model, unit, seed, offset, out, memory_threads());
  };
  rank_->start({.read = read, .has_moments = false}, 0);
}

void Trainer::start_with(const WeightsOfUnit& weights) {
  const StateReader read =
      master_reader(rank_->model().architecture, weights, rank_->room_for_weights());
  rank_->start({.read = read, .has_moments = false}, 0);
}

void Trainer::start_from(const StateReader& state, std::int64_t step) {
  rank_->start({.read = state}, step);
}

void Trainer::start_from_memory(std::int64_t steps) { rank_->start_from_memory(steps); }

std::optional<StepReport> Trainer::remembered(std::int64_t step) const {
  return rank_->remembered(step);
}

void Trainer::forget_snapshot() { rank_->forget_snapshot(); }

void Trainer::train_until(std::int64_t end, const OnStep& on_step) {
  rank_->train_until(end, on_step);
}

void Trainer::go_on() { rank_->go_on(); }

std::optional<EvaluationReport> Trainer::evaluate(const EvaluationSource& source) {
  return rank_->evaluate(source);
}

std::int64_t Trainer::steps_done() const noexcept { return rank_->steps_done(); }

bool Trainer::is_stopping() const noexcept { return rank_->is_stopping(); }

const Program& Trainer::program() const noexcept { return rank_->program(); }

TierBytes Trainer::peak_bytes() const { return rank_->peak_bytes(); }

std::vector<StateRange> Trainer::ranges_to_save() const {
  return athanor::ranges_to_save(rank_->context(), rank_->logical(), rank_->steps_done(),
                                 rank_->context().device);
}

std::vector<StateRange> Trainer::ranges_of_version() const { return rank_->ranges_of_version(); }

std::vector<std::uint64_t> Trainer::exchange(std::uint64_t value) {
  Collectives& collectives = rank_->context().host_collectives;
  std::vector<std::uint64_t> values(static_cast<std::size_t>(collectives.world_size()));
  values.at(collectives.rank()) = value;
  rank_->together([&] { collectives.all_gather(values.data(), sizeof(std::uint64_t)); });
  return values;
}

std::vector<float> Trainer::unit_weights(int unit) {
  std::vector<float> weights;
  rank_->together([&] {
    weights =
        gather_weights(rank_->context(), unit, rank_->logical().at(unit), rank_->steps_done());
  });
  return weights;
}

Timeline Trainer::timeline() {
  Timeline timeline;
  rank_->together([&] { timeline = rank_->recorder().collect(rank_->context().host_collectives); });
  timeline.peak_bytes = rank_->peak_bytes();
  return timeline;
}

}  // namespace athanor
