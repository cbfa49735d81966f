// SPDX-License-Identifier: Apache-2.0
#include "sim/model/json_writer.hpp"
#include "sim/model/memory.hpp"
#include "sim/model/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <utility>
#include <vector>

namespace athanor {
namespace {

constexpr int kIssueTrack = kNumLanes;

/// Picoseconds as microseconds: a whole number of picoseconds is read back within far less than 1
/// ns.
double picoseconds(Seconds seconds) { return std::round(seconds * 1e12); }
double microseconds(double picoseconds) { return picoseconds / 1e6; }

/// Kineto's categories, which tools filter by.
const char* category(Lane lane) {
  switch (lane) {
    case Lane::H2D:
    case Lane::D2H:
      return "gpu_memcpy";
    case Lane::CpuAdam:
      return "cpu_op";
    case Lane::Compute:
    case Lane::Collective:
      break;
  }
  return "kernel";
}

const char* collective_name(const Operation& op) {
  if (op.kind == OpKind::Reduce) return op.all_reduce ? "allreduce" : "reduce_scatter";
  return "all_gather";
}

OrderedJson arguments(const Program& program, const Interval& interval, const Operation& op) {
  OrderedJson args{{"operation", interval.operation},
                   {"step", interval.step},
                   {"device", interval.rank},
                   {"stream", static_cast<int>(op.lane)}};
  if (op.bytes > 0) args["bytes"] = op.bytes;
  if (op.lane == Lane::Collective) {
    args["Collective name"] = collective_name(op);
    args["In msg nelems"] = op.bytes / size_of(program.dtype);
    args["Group size"] = program.world_size;
  }
  return args;
}

OrderedJson duration_event(const Program& program, const Interval& interval,
                           const std::string& name) {
  const Operation& op = program.operations[static_cast<std::size_t>(interval.operation)];
  const double start = picoseconds(interval.start);
  return {{"ph", "X"},
          {"cat", category(op.lane)},
          {"name", name},
          {"pid", interval.rank},
          {"tid", static_cast<int>(op.lane)},
          {"ts", microseconds(start)},
          {"dur", microseconds(picoseconds(interval.end) - start)},
          {"args", arguments(program, interval, op)}};
}

/// The host's part of the operation, on a track of its own.
OrderedJson issue_event(const Interval& interval, const std::string& name) {
  const double start = picoseconds(interval.issue_start);
  return {{"ph", "X"},
          {"cat", kIssueCategory},
          {"name", name},
          {"pid", interval.rank},
          {"tid", kIssueTrack},
          {"ts", microseconds(start)},
          {"dur", microseconds(picoseconds(interval.issue_end) - start)},
          {"args", {{"operation", interval.operation}, {"step", interval.step}}}};
}

OrderedJson memory_event(const Interval& interval, Seconds when, Bytes bytes) {
  return {{"ph", "C"},
          {"name", "device memory"},
          {"pid", interval.rank},
          {"ts", microseconds(picoseconds(when))},
          {"args", {{"bytes", bytes}}}};
}

OrderedJson metadata_event(const char* what, int rank, int track, OrderedJson args) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", track}, {"args", std::move(args)}};
}

void name_track(OrderedJson& events, int rank, int track, const char* name) {
  events.push_back(metadata_event("thread_name", rank, track, {{"name", name}}));
  events.push_back(metadata_event("thread_sort_index", rank, track, {{"sort_index", track}}));
}

void add_metadata(OrderedJson& events, int rank) {
  events.push_back(
      metadata_event("process_name", rank, 0, {{"name", fmt::format("rank {}", rank)}}));
  events.push_back(metadata_event("process_sort_index", rank, 0, {{"sort_index", rank}}));
  for (const Lane lane : kLanes) name_track(events, rank, static_cast<int>(lane), lane_name(lane));
  name_track(events, rank, kIssueTrack, "issue");
}

OrderedJson trace_events(const Program& program, const Timeline& timeline) {
  OrderedJson events = OrderedJson::array();
  for (int rank = 0; rank < program.world_size; ++rank) add_metadata(events, rank);
  std::vector<std::string> names(program.operations.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = program.name(static_cast<std::int32_t>(i));
  }
  const std::vector<MemoryPoint> memory = device_memory_profile(program);
  for (const Interval& interval : timeline.intervals) {
    const std::string& name = names[static_cast<std::size_t>(interval.operation)];
    events.push_back(duration_event(program, interval, name));
    if (interval.issue_end > interval.issue_start) events.push_back(issue_event(interval, name));
    const auto point = std::lower_bound(
        memory.begin(), memory.end(), interval.operation,
        [](const MemoryPoint& p, std::int32_t operation) { return p.operation < operation; });
    if (point == memory.end() || point->operation != interval.operation) continue;
    events.push_back(memory_event(interval, interval.start, point->peak));
    events.push_back(memory_event(interval, interval.end, point->after));
  }
  return events;
}

}  // namespace

void write_trace(std::ostream& out, const Program& program, const Timeline& timeline) {
  const OrderedJson document{
      {"schemaVersion", 1},
      {"athanor",
       {{"schema", "athanor.timeline/1"},
        {"predicted", timeline.predicted},
        {"step_seconds", timeline.step_seconds},
        {"peak_bytes",
         {{"gpu", timeline.peak_bytes.gpu},
          {"pinned", timeline.peak_bytes.pinned},
          {"host", timeline.peak_bytes.host},
          {"nvme", timeline.peak_bytes.nvme}}},
        {"operations", program.operations.size()}}},
      {"distributedInfo", {{"backend", "nccl"}, {"rank", 0}, {"world_size", program.world_size}}},
      {"displayTimeUnit", "ms"},
      {"baseTimeNanoseconds", 0},
      {"traceName", timeline.predicted ? "athanor predicted" : "athanor measured"},
      {"traceEvents", trace_events(program, timeline)}};
  // Indentation 0 and not compact: trace tools look for "rank": 0 with the space.
  out << document.dump(0, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

}  // namespace athanor
