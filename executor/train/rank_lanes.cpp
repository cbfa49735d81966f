// SPDX-License-Identifier: Apache-2.0
#include "executor/train/rank_lanes.hpp"

#include "executor/backend/lane_threads.hpp"
#include "executor/units/torch_errors.hpp"
#include "executor/watch/job_watch.hpp"
#include "sim/base/errors.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <utility>

namespace athanor {
namespace {

std::string reason(const std::exception& error) {
  std::string text = message_without_frames(error);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    text += " Make a plan for less memory (athanor tune --gpu-memory).";
  }
  return text;
}

}  // namespace

RankLanes::RankLanes(const RankContext& context, OpRunner& runner, StateOf state_of,
                     Backend& backend, std::atomic<bool>& cancelled, Options options)
    : context_(context),
      runner_(runner),
      state_of_(std::move(state_of)),
      options_(std::move(options)) {
  LaneCallbacks callbacks;
  callbacks.entered = [this](Lane lane) { set_up_thread(lane); };
  callbacks.run = [this](std::int32_t op, std::int64_t step) { run_operation(op, step); };
  callbacks.started = [this](std::int32_t op, std::int64_t step) { note_start(op, step); };
  if (TimelineRecorder* const recorder = options_.recorder) {
    callbacks.issued = [recorder](std::int32_t op, std::int64_t step, Seconds from, Seconds to) {
      recorder->record_issue(op, step, from, to);
    };
  }
  callbacks.done = [this](std::int32_t op, std::int64_t step, Seconds start, Seconds end) {
    note_end(op, step, start, end);
  };
  lanes_ =
      backend.start_lanes(context_.program, options_.first_step, std::move(callbacks), cancelled);
  watch();
}

RankLanes::~RankLanes() {
  if (context_.watch != nullptr) context_.watch->forget_steps();
}

void RankLanes::watch() {
  if (context_.watch == nullptr) return;
  context_.watch->watch_steps(context_.program, options_.deadline,
                              [this](const std::string& message) { lanes_->fail(message); });
}

void RankLanes::set_up_thread(Lane lane) const {
  if (lane == Lane::Compute) {
    const Collectives& collectives = context_.collectives;
    bind_compute_lane(collectives.rank(), collectives.world_size(), context_.plan.compute_threads);
  } else {
    use_precise_sleeps();
  }
}

void RankLanes::run_operation(std::int32_t operation, std::int64_t step) {
  try {
    runner_.run(operation, state_of_(step));
  } catch (const std::exception& error) {
    throw Error(fmt::format("rank {} failed in '{}' of {} {}: {}", context_.collectives.rank(),
                            context_.program.name(operation), options_.step_name, step + 1,
                            reason(error)));
  }
}

void RankLanes::note_start(std::int32_t operation, std::int64_t step) {
  if (context_.watch == nullptr) return;
  RankProgress& progress = context_.watch->progress();
  const auto lane = context_.program.operations.at(operation).lane;
  progress.running.at(static_cast<std::size_t>(lane)) = operation;
  progress.step = step;
  if (lane == Lane::Collective) ++progress.collectives;
}

void RankLanes::note_end(std::int32_t operation, std::int64_t step, Seconds start, Seconds end) {
  if (options_.recorder != nullptr) options_.recorder->record(operation, step, start, end);
  if (context_.watch == nullptr) return;
  RankProgress& progress = context_.watch->progress();
  const auto lane = context_.program.operations.at(operation).lane;
  progress.running.at(static_cast<std::size_t>(lane)) = -1;
  ++progress.operations;
}

}  // namespace athanor
