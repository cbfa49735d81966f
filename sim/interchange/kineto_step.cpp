// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/kineto_step.hpp"

#include "sim/base/errors.hpp"
#include "sim/interchange/kineto_events.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <istream>
#include <limits>
#include <string_view>
#include <utility>

namespace athanor {
namespace {

constexpr std::string_view kStepPrefix = "ProfilerStep#";
constexpr std::string_view kNodePrefix = "autograd::engine::evaluate_function";

struct StepWindow {
  std::optional<std::int64_t> number;
  std::string thread;
  double start = 0, end = 0;
};

bool is_activity(const KinetoEvent& event) {
  return event.category == "kernel" || event.category == "gpu_memcpy" ||
         event.category == "gpu_memset";
}

bool is_launch(const KinetoEvent& event) {
  return event.category == "cuda_runtime" || event.category == "cuda_driver";
}

/// Makes the first pass: finds where steps begin and end.
std::vector<StepWindow> find_steps(const OpenTrace& open, const std::string& where,
                                   std::string& device) {
  std::vector<StepWindow> steps;
  device = read_kineto_events(*open(), where, [&](const KinetoEvent& event) {
    if (event.category != "user_annotation" || !event.name.starts_with(kStepPrefix)) return;
    const char* end = event.name.data() + event.name.size();
    std::int64_t number = 0;
    const auto [rest, status] =
        std::from_chars(event.name.data() + kStepPrefix.size(), end, number);
    if (status != std::errc{} || rest != end) return;
    steps.push_back({number, event.thread, event.start, event.start + event.duration});
  });
  std::sort(steps.begin(), steps.end(),
            [](const StepWindow& a, const StepWindow& b) { return a.start < b.start; });
  return steps;
}

StepWindow choose_step(const std::vector<StepWindow>& steps, const std::string& where,
                       std::optional<std::int64_t> wanted) {
  if (wanted) {
    std::vector<std::int64_t> known;
    for (const StepWindow& step : steps) {
      if (step.number == wanted) return step;
      known.push_back(*step.number);
    }
    throw InputError(where, fmt::format("has no {}{}", kStepPrefix, *wanted),
                     known.empty() ? "It marks no steps; leave --step out."
                                   : fmt::format("Use one of {}.", fmt::join(known, ", ")));
  }
  if (steps.empty()) return {std::nullopt, "", 0, std::numeric_limits<double>::infinity()};
  // A trace often ends within a step, so the last step may be a part of one.
  double longest = 0;
  for (const StepWindow& step : steps) longest = std::max(longest, step.end - step.start);
  const auto whole = std::find_if(steps.rbegin(), steps.rend(), [&](const StepWindow& step) {
    return step.end - step.start >= longest / 2;
  });
  return *whole;
}

/// Makes the second pass. An activity may run after the step that launched it. So it is kept if it
/// starts after the step's start, and belongs to the step if its launch does.
class StepLoader {
 public:
  StepLoader(StepWindow window, KinetoStep& step) : window_(std::move(window)), step_(step) {
    if (!window_.thread.empty()) step_.main_thread = thread(window_.thread);
  }

  void visit(const KinetoEvent& event) {
    if (event.phase == "s" || event.phase == "f") return visit_flow(event);
    if (event.phase != "X") return;
    if (is_activity(event)) {
      if (event.start < window_.start || event.correlation < 0) return;
      constexpr double kMicrosecond = 1e-6;
      step_.activities.push_back(
          {event.correlation, event.duration * kMicrosecond, kernel_class(event.name)});
      return;
    }
    if (event.start < window_.start || event.start >= window_.end) return;
    const double end = event.start + event.duration;
    if (is_launch(event)) {
      if (event.correlation < 0) return;
      step_.launches[event.correlation] = {thread(event.thread), event.start};
    } else if (event.category == "cpu_op" && event.name.starts_with(kNodePrefix)) {
      threads(event).nodes.add(event.start, end, -1);
    } else if (is_named_range(event)) {
      threads(event).annotations.add(event.start, end, label(event.name));
    }
  }

  void finish() {
    for (const auto& [id, flow] : flows_) {
      if (flow.from.thread < 0 || flow.to.thread < 0) continue;
      step_.threads[static_cast<std::size_t>(flow.to.thread)].origins[flow.to.time] = flow.from;
    }
    for (KinetoThread& each : step_.threads) {
      each.annotations.build();
      each.nodes.build();
    }
    if (step_.main_thread < 0) step_.main_thread = busiest_thread();
  }

 private:
  /// Returns the thread with the most modules and annotations, where steps are not marked.
  [[nodiscard]] std::int32_t busiest_thread() const {
    const auto busiest = std::max_element(
        step_.threads.begin(), step_.threads.end(), [](const auto& a, const auto& b) {
          return a.annotations.ranges().size() < b.annotations.ranges().size();
        });
    return static_cast<std::int32_t>(busiest - step_.threads.begin()) -
           (step_.threads.empty() ? 1 : 0);
  }

  struct Flow {
    KinetoPoint from, to;
  };

  static bool is_named_range(const KinetoEvent& event) {
    if (event.category == "python_function") return event.name.starts_with(kModulePrefix);
    return event.category == "user_annotation" && !event.name.starts_with(kStepPrefix);
  }

  void visit_flow(const KinetoEvent& event) {
    if (event.category != "fwdbwd" || event.flow < 0) return;
    if (event.start < window_.start || event.start >= window_.end) return;
    Flow& flow = flows_[event.flow];
    (event.phase == "s" ? flow.from : flow.to) = {thread(event.thread), event.start};
  }

  std::int32_t thread(const std::string& name) {
    const auto [found, is_new] =
        thread_ids_.try_emplace(name, static_cast<std::int32_t>(step_.threads.size()));
    if (is_new) step_.threads.emplace_back();
    return found->second;
  }

  KinetoThread& threads(const KinetoEvent& event) {
    return step_.threads[static_cast<std::size_t>(thread(event.thread))];
  }

  std::int32_t label(const std::string& name) {
    const auto [found, is_new] =
        label_ids_.try_emplace(name, static_cast<std::int32_t>(step_.labels.size()));
    if (is_new) step_.labels.push_back(name);
    return found->second;
  }

  StepWindow window_;
  KinetoStep& step_;
  std::map<std::string, std::int32_t> thread_ids_, label_ids_;
  std::unordered_map<std::int64_t, Flow> flows_;
};

}  // namespace

void RangeTree::build() {
  std::sort(ranges_.begin(), ranges_.end(), [](const KinetoRange& a, const KinetoRange& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<std::int32_t> open;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    while (!open.empty() && (*this)[open.back()].end <= ranges_[i].start) open.pop_back();
    ranges_[i].parent = open.empty() ? -1 : open.back();
    open.push_back(static_cast<std::int32_t>(i));
  }
}

std::int32_t RangeTree::innermost(double time) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), time,
      [](double wanted, const KinetoRange& range) { return wanted < range.start; });
  auto index = static_cast<std::int32_t>(after - ranges_.begin()) - 1;
  while (index >= 0 && (*this)[index].end <= time) index = (*this)[index].parent;
  return index;
}

KinetoStep load_kineto_step(const OpenTrace& open, const std::string& where,
                            std::optional<std::int64_t> wanted) {
  KinetoStep step;
  const StepWindow window = choose_step(find_steps(open, where, step.device), where, wanted);
  step.number = window.number;
  StepLoader loader(window, step);
  read_kineto_events(*open(), where, [&](const KinetoEvent& event) { loader.visit(event); });
  loader.finish();
  if (step.activities.empty()) {
    throw InputError(where,
                     step.number ? fmt::format("holds no kernels of step {}", *step.number)
                                 : std::string("holds no kernels"),
                     "Profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].");
  }
  return step;
}

}  // namespace athanor
