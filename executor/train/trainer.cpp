// SPDX-License-Identifier: Apache-2.0
#include "executor/train/trainer.hpp"

#include "executor/backend/host_backend.hpp"
#include "executor/backend/lane_threads.hpp"
#include "executor/memory/memory_check.hpp"
#include "executor/train/op_runner.hpp"
#include "executor/train/timeline_recorder.hpp"
#include "executor/units/initial_weights.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace athanor {
namespace {

/// Number of steps that may be released before the oldest of them is complete, so that lanes never
/// wait for the main thread.
constexpr std::int64_t kStepsAhead = 2;

/// Message of an error. LibTorch adds a stack of frames, which does not help who trains a model.
std::string reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr) return error.what();
  std::string text = torch_error->what_without_backtrace();
  if (dynamic_cast<const c10::OutOfMemoryError*>(torch_error) != nullptr) {
    text += " Make a plan for less memory (athanor tune --gpu-memory).";
  }
  return text;
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

}  // namespace

class Trainer::Rank {
 public:
  Rank(Model model, const Profile& profile, const Plan& plan, BatchSource batches,
       const TrainOptions& options, Backend& backend)
      : options_(options),
        backend_(backend),
        model_(std::move(model)),
        plan_(checked(plan, options, backend.collectives())),
        program_(lower(profile, plan_)),
        logical_(logical_elements(model_.architecture)),
        memory_(program_, plan_, backend.collectives().rank(), backend.device(),
                options.nvme_folder),
        context_{program_,
                 plan_,
                 memory_,
                 backend.device(),
                 backend.collectives(),
                 backend.host_collectives(),
                 options.watch},
        runner_(context_, model_, std::move(batches), options.optimizer),
        recorder_(program_) {
    torch::set_num_threads(plan_.compute_threads);
    Collectives& ranks = context_.host_collectives;
    ranks.set_cancel_flag(&cancelled_);
    for (std::int64_t i = 0; i <= kStepsAhead; ++i) {
      states_.push_back({StepScalars(program_, plan_, ranks.rank(), backend.device())});
    }
    ranks.barrier();
    recorder_ = TimelineRecorder(program_);
  }

  ~Rank() {
    forget_steps();
    context_.host_collectives.set_cancel_flag(nullptr);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void start(const StateReader& state, std::int64_t step);
  void together(const std::function<void()>& collective_call);
  void train_until(std::int64_t end, const OnStep& on_step);

  Model& model() { return model_; }
  const TrainOptions& options() const { return options_; }
  const Program& program() const { return program_; }
  const RankContext& context() const { return context_; }
  const std::vector<std::int64_t>& logical() const { return logical_; }
  const TimelineRecorder& recorder() const { return recorder_; }
  std::int64_t steps_done() const { return steps_done_; }
  bool is_stopping() const { return is_stopping_; }

  TierBytes peak_bytes() const {
    TierBytes peak = memory_.bytes();
    peak.gpu = context_.device.peak();
    return peak;
  }

 private:
  StepState& state_of(std::int64_t step) {
    return states_[static_cast<std::size_t>(step) % states_.size()];
  }
  void forget_steps() const;
  void enter(RankPhase phase) const;
  void prepare(std::int64_t step);
  void set_up_thread(Lane lane) const;
  void run_operation(std::int32_t operation, std::int64_t step);
  void note_start(std::int32_t operation, std::int64_t step);
  void note_end(std::int32_t operation, std::int64_t step, Seconds start, Seconds end);
  StepReport report(std::int64_t step, bool continuous);

  const TrainOptions options_;
  Backend& backend_;
  Model model_;
  const Plan plan_;
  const Program program_;
  const std::vector<std::int64_t> logical_;
  MemoryPools memory_;
  RankContext context_;
  OpRunner runner_;
  TimelineRecorder recorder_;
  std::atomic<bool> cancelled_ = false;
  std::vector<StepState> states_;  ///< [step % size], a ring
  std::int64_t steps_done_ = 0;
  bool is_stopping_ = false;
  std::unique_ptr<Lanes> lanes_;
};

void Trainer::Rank::prepare(std::int64_t step) {
  StepState& state = state_of(step);
  state.step = step;
  state.learning_rate = static_cast<float>(options_.schedule.at(step));
}

void Trainer::Rank::set_up_thread(Lane lane) const {
  if (lane == Lane::Compute) {
    const Collectives& collectives = context_.collectives;
    bind_compute_lane(collectives.rank(), collectives.world_size(), plan_.compute_threads);
  } else {
    use_precise_sleeps();
  }
}

void Trainer::Rank::run_operation(std::int32_t operation, std::int64_t step) {
  try {
    runner_.run(operation, state_of(step));
  } catch (const std::exception& error) {
    throw Error(fmt::format("rank {} failed in '{}' of step {}: {}", context_.collectives.rank(),
                            program_.name(operation), step + 1, reason(error)));
  }
}

void Trainer::Rank::note_start(std::int32_t operation, std::int64_t step) {
  if (context_.watch == nullptr) return;
  RankProgress& progress = context_.watch->progress();
  const auto lane = program_.operations.at(operation).lane;
  progress.running.at(static_cast<std::size_t>(lane)) = operation;
  progress.step = step;
  if (lane == Lane::Collective) ++progress.collectives;
}

void Trainer::Rank::note_end(std::int32_t operation, std::int64_t step, Seconds start,
                             Seconds end) {
  recorder_.record(operation, step, start, end);
  if (context_.watch == nullptr) return;
  RankProgress& progress = context_.watch->progress();
  const auto lane = program_.operations.at(operation).lane;
  progress.running.at(static_cast<std::size_t>(lane)) = -1;
  ++progress.operations;
}

StepReport Trainer::Rank::report(std::int64_t step, bool continuous) {
  const Seconds previous_end = continuous ? recorder_.step_end(step - 1) : 0;
  recorder_.finish_step(step, continuous);
  const StepScalars& scalars = state_of(step).scalars;
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
                    .device_peak_bytes = context_.device.peak()};
  if (plan_.clipping != Clipping::None) {
    report.gradient_norm = scalars.clipping(Home::Host)->norm;
  }
  return report;
}

void Trainer::Rank::start(const StateReader& state, std::int64_t step) {
  forget_steps();
  lanes_.reset();
  load_state(context_, logical_, step, state);
  context_.device.reset_peak();
  steps_done_ = step;
  lanes_ = backend_.start_lanes(
      program_, step,
      {.entered = [this](Lane lane) { set_up_thread(lane); },
       .run = [this](std::int32_t op, std::int64_t of_step) { run_operation(op, of_step); },
       .started = [this](std::int32_t op, std::int64_t of_step) { note_start(op, of_step); },
       .issued = [this](std::int32_t op, std::int64_t of_step, Seconds from,
                        Seconds to) { recorder_.record_issue(op, of_step, from, to); },
       .done = [this](std::int32_t op, std::int64_t of_step, Seconds start,
                      Seconds end) { note_end(op, of_step, start, end); }},
      cancelled_);
  if (context_.watch == nullptr) return;
  context_.watch->watch_steps(program_, options_.deadline,
                              [this](const std::string& message) { lanes_->fail(message); });
}

void Trainer::Rank::forget_steps() const {
  if (context_.watch != nullptr) context_.watch->forget_steps();
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
  const auto weights = [&](std::int32_t unit, std::span<float> flat) {
    initial_weights(model, unit, seed, flat);
  };
  start_from(fresh_state(model.architecture, weights), 0);
}

void Trainer::start_from(const StateReader& state, std::int64_t step) { rank_->start(state, step); }

void Trainer::train_until(std::int64_t end, const OnStep& on_step) {
  rank_->train_until(end, on_step);
}

std::int64_t Trainer::steps_done() const noexcept { return rank_->steps_done(); }

bool Trainer::is_stopping() const noexcept { return rank_->is_stopping(); }

const Program& Trainer::program() const noexcept { return rank_->program(); }

TierBytes Trainer::peak_bytes() const { return rank_->peak_bytes(); }

std::vector<StateRange> Trainer::ranges_to_save() const {
  return athanor::ranges_to_save(rank_->context(), rank_->logical(), rank_->steps_done());
}

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
