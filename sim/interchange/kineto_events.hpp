// SPDX-License-Identifier: Apache-2.0
// Events of a PyTorch profiler (Kineto) trace, read one by one because traces have gigabytes.
// Internal to this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

namespace athanor {

/// The parts of one entry of traceEvents that the readers of this folder use.
struct KinetoEvent {
  std::string phase;     ///< "X": a duration; "s" and "f": the two ends of a flow
  std::string category;  ///< "kernel", "cuda_runtime", "user_annotation", ..
  std::string name;
  std::string thread;      ///< process and thread, as "pid/tid"
  double start = 0;        ///< microseconds
  double duration = 0;     ///< microseconds, never negative; 0 if absent
  std::int64_t flow = -1;  ///< id of a flow
  std::int64_t correlation = -1;
};

/// Reads all of `in` and hands out each event in the order of the file, in constant memory. Returns
/// the name of the first device, or "". `where` stands for the file in messages. Throws InputError
/// where the text is no JSON or has no traceEvents, and for an event with an impossible time or
/// number.
std::string read_kineto_events(std::istream& in, const std::string& where,
                               const std::function<void(const KinetoEvent&)>& visit);

}  // namespace athanor
