// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/device_activity.hpp"

#include "calibrate/bench/measure.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <latch>
#include <thread>
#include <utility>

namespace athanor {
namespace {

using Clock = std::chrono::steady_clock;

class HostActivity final : public DeviceActivity {
 public:
  explicit HostActivity(Activity activity) : activity_(std::move(activity)) {}
  void run(const SampleSink& sink) override {
    while (sink(time_once(activity_))) {
    }
  }

 private:
  Activity activity_;
};

bool has_passed(Clock::time_point start, Seconds seconds) {
  return std::chrono::duration<Seconds>(Clock::now() - start).count() >= seconds;
}

/// State that the threads of measure_together() share.
enum class Stage { WarmUp, Measuring, Over };
struct Shared {
  explicit Shared(std::ptrdiff_t count) : started(count) {}
  std::latch started;
  std::atomic<Stage> stage{Stage::WarmUp};
};

/// One of several activities that run at once. A repetition counts in the stage in which it ends.
class Member {
 public:
  Member(DeviceActivity& activity, Shared& shared)
      : shared_(shared), thread_([this, &activity] { repeat(activity); }) {}

  [[nodiscard]] Samples result() {
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(samples_);
  }

 private:
  void repeat(DeviceActivity& activity) {
    try {
      activity.run([this](Seconds seconds) { return add(seconds); });
    } catch (...) {
      failure_ = std::current_exception();
    }
    start();
  }

  bool add(Seconds seconds) {
    start();
    const Stage stage = shared_.stage.load();
    if (stage != Stage::WarmUp && (stage == Stage::Measuring || samples_.count() == 0)) {
      samples_.add(seconds);
    }
    return stage != Stage::Over;
  }

  void start() {
    if (!std::exchange(has_started_, true)) shared_.started.count_down();
  }

  Shared& shared_;
  bool has_started_ = false;
  Samples samples_;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

ActivityPtr host_device_activity(Activity activity) {
  return std::make_unique<HostActivity>(std::move(activity));
}

Samples measure_sustained(DeviceActivity& activity, Seconds warm_up, const StoppingRule& rule) {
  Samples samples;
  Clock::time_point start = Clock::now();
  bool warm = false;
  activity.run([&](Seconds seconds) {
    if (!warm) {
      warm = has_passed(start, warm_up);
      start = warm ? Clock::now() : start;
      return true;
    }
    samples.add(seconds);
    const bool late =
        samples.count() >= rule.min_repetitions && has_passed(start, rule.max_seconds);
    return !late && !rule.satisfied_by(samples);
  });
  return samples;
}

std::vector<Samples> measure_together(const std::vector<DeviceActivity*>& activities,
                                      Seconds warm_up, Seconds duration) {
  Shared shared(std::ssize(activities));
  std::vector<std::unique_ptr<Member>> members;
  for (DeviceActivity* activity : activities) {
    members.push_back(std::make_unique<Member>(*activity, shared));
  }
  shared.started.wait();
  sleep_for(warm_up);
  shared.stage = Stage::Measuring;
  sleep_for(duration);
  shared.stage = Stage::Over;
  std::vector<Samples> samples;
  for (const auto& member : members) samples.push_back(member->result());
  return samples;
}

}  // namespace athanor
