// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/json_writer.hpp"
#include "sim/formats/trace.hpp"
#include "sim/formats/trace_names.hpp"
#include "sim/model/memory.hpp"
#include "sim/model/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

constexpr int kIssueTrack = kNumLanes;

/// Whole picoseconds, so that a time is read back within far less than 1 ns.
double picoseconds(Seconds seconds) { return std::round(seconds * 1e12); }
double microseconds(double picoseconds) { return picoseconds / 1e6; }

/// Kineto's category of a lane, by which tools filter.
const char* category(Lane lane) {
  switch (lane) {
    case Lane::H2D:
    case Lane::D2H:
      return "gpu_memcpy";
    case Lane::CpuAdam:
    case Lane::NvmeRead:
    case Lane::NvmeWrite:
      return "cpu_op";
    case Lane::Compute:
    case Lane::Collective:
      break;
  }
  return "kernel";
}

bool is_all_to_all(const Operation& op) {
  return op.kind == OpKind::Dispatch || op.kind == OpKind::Combine;
}

const char* collective_name(const Operation& op) {
  if (op.kind == OpKind::Reduce) return op.all_reduce ? "allreduce" : "reduce_scatter";
  if (op.kind == OpKind::ActivationReduce) return "reduce_scatter";
  if (op.kind == OpKind::PeerCopy || op.kind == OpKind::PeerMark) return "send_recv";
  return is_all_to_all(op) ? "all_to_all" : "all_gather";
}

/// Adds a collective's sizes. An all-gather reads a shard and a reduce-scatter writes one, while
/// `bytes` is always the whole buffer.
void add_collective(OrderedJson& args, const Program& program, const Operation& op) {
  const std::int64_t whole = op.bytes / size_of(program.dtype);
  const std::int64_t shard = whole / program.world_size;
  const bool reduces = op.kind == OpKind::Reduce || op.kind == OpKind::ActivationReduce;
  const bool sends_all = is_all_to_all(op) || op.kind == OpKind::PeerCopy;
  args["Collective name"] = collective_name(op);
  args["In msg nelems"] = reduces || sends_all ? whole : shard;
  args["Out msg nelems"] = reduces && !op.all_reduce ? shard : whole;
  args["Group size"] = program.world_size;
}

bool is_issued(const Interval& interval) { return interval.issue_end > interval.issue_start; }

/// Arguments of both an operation and its launch. Trace tools match the two by `correlation`.
OrderedJson common_arguments(const Program& program, const Interval& interval) {
  OrderedJson args{{"operation", interval.operation}, {"step", interval.step}};
  const auto operations = static_cast<std::int64_t>(program.operations.size());
  if (is_issued(interval))
    args["correlation"] = interval.step * operations + interval.operation + 1;
  return args;
}

OrderedJson arguments(const Program& program, const Interval& interval, const Operation& op) {
  OrderedJson args = common_arguments(program, interval);
  // Only events on the device have a stream. Trace tools expect streams above 0.
  if (!is_host_lane(op.lane)) {
    args["device"] = interval.rank;
    args["stream"] = static_cast<int>(op.lane) + 1;
  }
  if (op.bytes > 0) args["bytes"] = op.bytes;
  if (op.lane == Lane::Collective && !op.own) add_collective(args, program, op);
  const Seconds seconds = interval.end - interval.start;
  if ((op.lane == Lane::H2D || op.lane == Lane::D2H) && seconds > 0) {
    args["memory bandwidth (GB/s)"] = static_cast<double>(op.bytes) / seconds / kGigabyte;
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

/// Event of the operation's launch by the host, on a track of its own.
OrderedJson issue_event(const Program& program, const Interval& interval) {
  const double start = picoseconds(interval.issue_start);
  return {{"ph", "X"},
          {"cat", kIssueCategory},
          {"name", program.name(interval.operation)},
          {"pid", interval.rank},
          {"tid", kIssueTrack},
          {"ts", microseconds(start)},
          {"dur", microseconds(picoseconds(interval.issue_end) - start)},
          {"args", common_arguments(program, interval)}};
}

OrderedJson memory_event(const Interval& interval, Seconds when, Bytes bytes) {
  return {{"ph", "C"},
          {"name", "device memory"},
          {"pid", interval.rank},
          {"ts", microseconds(picoseconds(when))},
          {"args", {{"bytes", bytes}}}};
}

OrderedJson power_event(const PowerLevel& level) {
  return {{"ph", "C"},
          {"name", "power"},
          {"pid", level.rank},
          {"ts", microseconds(picoseconds(level.start))},
          {"args", {{"W", level.watts}}}};
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

OrderedJson trace_events(const Program& program, const Timeline& timeline,
                         std::optional<int> rank) {
  OrderedJson events = OrderedJson::array();
  const auto wanted = [&](int candidate) { return !rank || *rank == candidate; };
  for (int each = 0; each < program.world_size; ++each) {
    if (wanted(each)) add_metadata(events, each);
  }
  const std::vector<std::string> names = trace_names(program);
  const std::vector<MemoryPoint> memory = device_memory_profile(program);
  for (const Interval& interval : timeline.intervals) {
    if (!wanted(interval.rank)) continue;
    events.push_back(
        duration_event(program, interval, names[static_cast<std::size_t>(interval.operation)]));
    if (is_issued(interval)) events.push_back(issue_event(program, interval));
    const auto point = std::lower_bound(
        memory.begin(), memory.end(), interval.operation,
        [](const MemoryPoint& p, std::int32_t operation) { return p.operation < operation; });
    if (point == memory.end() || point->operation != interval.operation) continue;
    events.push_back(memory_event(interval, interval.start, point->peak));
    events.push_back(memory_event(interval, interval.end, point->after));
  }
  for (const PowerLevel& level : timeline.power) {
    if (wanted(level.rank)) events.push_back(power_event(level));
  }
  return events;
}

}  // namespace

void write_trace(std::ostream& out, const Program& program, const Timeline& timeline,
                 std::optional<int> rank) {
  const OrderedJson document{
      {"schemaVersion", 1},
      {"athanor",
       {{"schema", "athanor.timeline/1"},
        {"predicted", timeline.predicted},
        {"step_seconds", timeline.step_seconds},
        {"peak_bytes", json_of(timeline.peak_bytes)},
        {"operations", program.operations.size()}}},
      {"distributedInfo",
       {{"backend", "nccl"}, {"rank", rank.value_or(0)}, {"world_size", program.world_size}}},
      {"displayTimeUnit", "ms"},
      {"baseTimeNanoseconds", 0},
      {"traceName", timeline.predicted ? "athanor predicted" : "athanor measured"},
      {"traceEvents", trace_events(program, timeline, rank)}};
  // Indentation 0 and not compact: trace tools look for "rank": 0 with the space.
  out << document.dump(0, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

}  // namespace athanor
