// SPDX-License-Identifier: Apache-2.0
#include "executor/recording/recorded_phases.hpp"

#include <utility>

namespace athanor {

RecordedPhases::RecordedPhases(WorkRecorder* recorder, bool records, std::size_t num_operations)
    : recorder_(recorder), records_(records && recorder != nullptr), phases_(num_operations) {}

bool RecordedPhases::run(std::int32_t operation, const std::function<void()>& work) {
  if (recorder_ == nullptr) {
    work();
    return true;
  }
  Phase& phase = phases_.at(static_cast<std::size_t>(operation));
  if (!records_ || !std::exchange(phase.has_run, true)) {
    recorder_->run(work);
    return true;
  }
  const bool is_new = phase.recorded == nullptr;
  if (is_new) {
    phase.recorded = recorder_->record(work);
    bytes_ += phase.recorded->bytes();
  }
  phase.recorded->issue();
  return is_new;
}

}  // namespace athanor
