// SPDX-License-Identifier: Apache-2.0
#include "cli/common/progress_line.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace athanor::cli {
namespace {

constexpr const char* kRewind = "\r\033[K";

Seconds monotonic_time() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void write_to_stderr(const std::string& text) {
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
}

}  // namespace

ProgressTarget progress_on_stderr(bool quiet) {
  return {!quiet, isatty(STDERR_FILENO) == 1, monotonic_time, write_to_stderr};
}

ProgressLine::ProgressLine(ProgressTarget target, Stages stages)
    : target_(std::move(target)), stages_(stages), last_shown_(target_.clock()) {}

bool ProgressLine::is_due(Seconds time, bool begins) const {
  constexpr Seconds kOnTerminal = 0.1, kElsewhere = 30;
  if (target_.rewrites && !is_on_screen_) return true;
  if (begins && (target_.rewrites || stages_ == Stages::Said)) return true;
  return time - last_shown_ >= (target_.rewrites ? kOnTerminal : kElsewhere);
}

void ProgressLine::update(const std::string& stage, std::int64_t done, std::int64_t total) {
  if (!target_.is_shown) return;
  const Seconds time = target_.clock();
  const bool begins = stage != stage_;
  if (done < done_ || (done == 0 && begins)) left_ = {};
  stage_ = stage;
  done_ = done;
  if (total > 0) left_.note(time, static_cast<double>(done) / static_cast<double>(total));
  if (!is_due(time, begins)) return;
  last_shown_ = time;
  const std::string text = progress_text(stage, done, total, left_.left());
  is_on_screen_ = target_.rewrites;
  target_.write(target_.rewrites ? kRewind + text : text + "\n");
}

void ProgressLine::clear() {
  if (std::exchange(is_on_screen_, false)) target_.write(kRewind);
}

OnProgress ProgressLine::callback() {
  return [this](const std::string& stage, std::int64_t done, std::int64_t total) {
    update(stage, done, total);
  };
}

}  // namespace athanor::cli
