// SPDX-License-Identifier: Apache-2.0
#include "calibrate/kernels/kineto_trace.hpp"

#include "sim/base/name_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <ostream>
#include <set>
#include <utility>

namespace athanor {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHost = 1000;  // a process that is no device
constexpr int kOverheadThread = 0;

double microseconds(TraceTime nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

/// Kineto's categories, which tools filter by.
constexpr NameTable<ActivityKind, 6> kCategories{{{"kernel", ActivityKind::Kernel},
                                                  {"gpu_memcpy", ActivityKind::Copy},
                                                  {"gpu_memset", ActivityKind::Memset},
                                                  {"cuda_runtime", ActivityKind::Runtime},
                                                  {"cuda_driver", ActivityKind::Driver},
                                                  {"overhead", ActivityKind::Overhead}}};

std::string phase_text(const TracedPhase& phase) {
  return fmt::format("{}, micro-batch {}, {}", phase.unit_class, phase.micro_batch,
                     unit_phase_name(phase.phase));
}

int last_repetition(const KernelTrace& trace) {
  int last = 0;
  for (const TracedPhase& phase : trace.phases) last = std::max(last, phase.repetition);
  return last;
}

/// Returns the activities of a trace that are written.
std::vector<const TracedActivity*> shown(const KernelTrace& trace) {
  const int last = last_repetition(trace);
  std::vector<const TracedActivity*> chosen;
  for (const TracedActivity& activity : trace.activities) {
    const LaunchOrigin* const origin = trace.origin_of(activity);
    if (origin != nullptr && trace.phases[origin->phase].repetition == last) {
      chosen.push_back(&activity);
    }
  }
  return chosen;
}

class KinetoEvents {
 public:
  explicit KinetoEvents(TraceTime base) : base_(base) {}

  void add(const KernelTrace& trace) {
    const std::vector<const TracedActivity*> activities = shown(trace);
    TraceTime begin = std::numeric_limits<TraceTime>::max();
    TraceTime end = 0;
    for (const TracedActivity* activity : activities) {
      add_activity(trace, *activity);
      begin = std::min(begin, activity->start);
      end = std::max(end, activity->end);
    }
    add_annotations(trace, activities);
    for (const TracedActivity& activity : trace.activities) {
      const bool meanwhile = activity.start >= begin && activity.end <= end;
      if (activity.kind == ActivityKind::Overhead && meanwhile) add_overhead(activity);
    }
    origins_before_ += trace.origins.size();
  }

  [[nodiscard]] Json take() {
    for (const int device : devices_) {
      name_process(device, fmt::format("GPU {}", device), device);
    }
    name_process(kHost, "host", -1);
    for (const auto& [process, thread] : tracks_) {
      const std::string name =
          process == kHost ? fmt::format("thread {}", thread) : fmt::format("stream {}", thread);
      metadata("thread_name", process, thread, {{"name", name}});
    }
    return std::move(events_);
  }

 private:
  Json& event(const char* kind, const char* category, const std::string& name, int process,
              std::int64_t thread, TraceTime start) {
    tracks_.emplace(process, thread);
    events_.push_back({{"ph", kind},
                       {"cat", category},
                       {"name", name},
                       {"pid", process},
                       {"tid", thread},
                       {"ts", microseconds(start - base_)}});
    return events_.back();
  }

  void add_activity(const KernelTrace& trace, const TracedActivity& activity) {
    const bool on_device = is_on_device(activity.kind);
    const int process = on_device ? activity.device : kHost;
    Json& added = event("X", name_of(kCategories, activity.kind).data(), activity.name, process,
                        activity.stream, activity.start);
    added["dur"] = microseconds(activity.end - activity.start);
    added["args"] = arguments(trace, activity);
    if (on_device) devices_.insert(activity.device);
    add_arrow(activity, process);
  }

  [[nodiscard]] Json arguments(const KernelTrace& trace, const TracedActivity& activity) const {
    Json args{{"correlation", activity.correlation},
              {"External id", origins_before_ + activity.origin}};
    const std::string& name = trace.origin_of(activity)->name;
    if (!name.empty()) args["operator"] = name;
    if (!is_on_device(activity.kind)) return args;
    args["device"] = activity.device;
    args["stream"] = activity.stream;
    if (activity.kind == ActivityKind::Kernel) return args;
    args["bytes"] = activity.bytes;
    if (activity.end > activity.start) {
      args["memory bandwidth (GB/s)"] =
          static_cast<double>(activity.bytes) / activity.seconds() / kGigabyte;
    }
    return args;
  }

  /// Adds one end of the arrow from a call to what it launched.
  void add_arrow(const TracedActivity& activity, int process) {
    const bool is_end = is_on_device(activity.kind);
    Json& arrow =
        event(is_end ? "f" : "s", "ac2g", "ac2g", process, activity.stream, activity.start);
    arrow["id"] = activity.correlation;
    if (is_end) arrow["bp"] = "e";
  }

  /// Adds each phase on the thread of its first call, from there to the end of its last one.
  void add_annotations(const KernelTrace& trace,
                       const std::vector<const TracedActivity*>& activities) {
    struct Range {
      const TracedActivity* first = nullptr;
      TraceTime end = 0;
    };
    std::map<std::size_t, Range> ranges;
    for (const TracedActivity* activity : activities) {
      if (is_on_device(activity->kind)) continue;
      Range& range = ranges[trace.origin_of(*activity)->phase];
      if (range.first == nullptr || activity->start < range.first->start) range.first = activity;
      range.end = std::max(range.end, activity->end);
    }
    for (const auto& [phase, range] : ranges) {
      event("X", "user_annotation", phase_text(trace.phases[phase]), kHost, range.first->stream,
            range.first->start)["dur"] = microseconds(range.end - range.first->start);
    }
  }

  void add_overhead(const TracedActivity& activity) {
    event("X", name_of(kCategories, activity.kind).data(), activity.name, kHost, kOverheadThread,
          activity.start)["dur"] = microseconds(activity.end - activity.start);
  }

  void metadata(const char* what, int process, std::int64_t thread, Json args) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", process},
                       {"tid", thread},
                       {"args", std::move(args)}});
  }

  void name_process(int process, const std::string& name, int position) {
    metadata("process_name", process, 0, {{"name", name}});
    metadata("process_sort_index", process, 0, {{"sort_index", position}});
  }

  TraceTime base_;
  std::uint64_t origins_before_ = 0;
  std::set<int> devices_;
  std::set<std::pair<int, std::int64_t>> tracks_;
  Json events_ = Json::array();
};

/// Returns the start of the trace. Doubles hold microseconds since then to the nanosecond, but not
/// microseconds since 1970.
TraceTime first_start(std::span<const KernelTrace> traces) {
  TraceTime first = std::numeric_limits<TraceTime>::max();
  for (const KernelTrace& trace : traces) {
    for (const TracedActivity* activity : shown(trace)) first = std::min(first, activity->start);
  }
  return first;
}

}  // namespace

void write_kineto_trace(std::ostream& out, std::span<const KernelTrace> traces,
                        const std::string& device_name) {
  KinetoEvents events(first_start(traces));
  for (const KernelTrace& trace : traces) events.add(trace);
  const Json document{{"schemaVersion", 1},
                      {"deviceProperties", Json::array({{{"id", 0}, {"name", device_name}}})},
                      {"distributedInfo", {{"backend", "nccl"}, {"rank", 0}, {"world_size", 1}}},
                      {"displayTimeUnit", "ms"},
                      {"baseTimeNanoseconds", 0},
                      {"traceName", "athanor profile"},
                      {"traceEvents", events.take()}};
  // Indentation 0 and not compact: trace tools look for "rank": 0 with the space.
  out << document.dump(0, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace athanor
