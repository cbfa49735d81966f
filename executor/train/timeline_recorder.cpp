// SPDX-License-Identifier: Apache-2.0
#include "executor/train/timeline_recorder.hpp"

#include "executor/backend/steady_clock.hpp"

#include <algorithm>

namespace athanor {
namespace {

constexpr std::int64_t kWarmupSteps = 2;

}  // namespace

TimelineRecorder::TimelineRecorder(const Program& program)
    : operations_(program.operations.size()),
      origin_(steady_seconds()),
      spans_(operations_ * kWindow) {}

const TimelineRecorder::Span* TimelineRecorder::spans(std::int64_t step) const {
  return spans_.data() + static_cast<std::size_t>(step % kWindow) * operations_;
}

TimelineRecorder::Span& TimelineRecorder::span(std::int32_t operation, std::int64_t step) {
  const auto slot = static_cast<std::size_t>(step % kWindow) * operations_;
  return spans_[slot + static_cast<std::size_t>(operation)];
}

void TimelineRecorder::record(std::int32_t operation, std::int64_t step, Seconds start,
                              Seconds end) {
  Span& recorded = span(operation, step);
  recorded.start = start - origin_;
  recorded.end = end - origin_;
}

void TimelineRecorder::record_issue(std::int32_t operation, std::int64_t step, Seconds start,
                                    Seconds end) {
  Span& recorded = span(operation, step);
  recorded.issue_start = start - origin_;
  recorded.issue_end = end - origin_;
}

Seconds TimelineRecorder::step_start(std::int64_t step) const {
  const Span* const first = spans(step);
  return std::min_element(first, first + operations_,
                          [](const Span& a, const Span& b) { return a.start < b.start; })
      ->start;
}

Seconds TimelineRecorder::step_end(std::int64_t step) const {
  const Span* const first = spans(step);
  return std::max_element(first, first + operations_,
                          [](const Span& a, const Span& b) { return a.end < b.end; })
      ->end;
}

void TimelineRecorder::finish_step(std::int64_t step, bool continuous) {
  const Seconds end = step_end(step);
  if (continuous && finished_steps_ >= kWarmupSteps) periods_.push_back(end - last_end_);
  last_end_ = end;
  last_step_ = step;
  ++finished_steps_;
}

Seconds TimelineRecorder::median_period() const {
  if (periods_.empty()) {
    return last_step_ < 0 ? 0 : step_end(last_step_) - step_start(last_step_);
  }
  std::vector<Seconds> sorted = periods_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

Timeline TimelineRecorder::collect(Collectives& collectives) const {
  const std::int64_t steps = std::min(kWindow, finished_steps_);
  const auto per_rank = static_cast<std::size_t>(steps) * operations_;
  const auto ranks = static_cast<std::size_t>(collectives.world_size());
  std::vector<Span> all(ranks * per_rank);
  auto next = all.begin() +
              static_cast<std::ptrdiff_t>(per_rank * static_cast<std::size_t>(collectives.rank()));
  const std::int64_t first = last_step_ + 1 - steps;
  for (std::int64_t i = 0; i < steps; ++i) {
    next = std::copy_n(spans(first + i), operations_, next);
  }
  if (per_rank > 0) {
    collectives.all_gather(all.data(), static_cast<Bytes>(per_rank * sizeof(Span)));
  }
  Timeline timeline;
  timeline.step_seconds = median_period();
  timeline.intervals.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    timeline.intervals.push_back(
        {.operation = static_cast<std::int32_t>(i % operations_),
         .rank = static_cast<std::int32_t>(i / per_rank),
         .step = static_cast<std::int32_t>(first +
                                           static_cast<std::int64_t>(i % per_rank / operations_)),
         .start = all[i].start,
         .end = all[i].end,
         .issue_start = all[i].issue_start,
         .issue_end = all[i].issue_end});
  }
  return timeline;
}

}  // namespace athanor
