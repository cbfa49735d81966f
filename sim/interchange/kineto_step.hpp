// SPDX-License-Identifier: Apache-2.0
// Content of one step of a Kineto trace: ranges and launches by thread, and the device's
// activities. Internal to this folder.
#pragma once

#include "sim/interchange/import_kineto.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace athanor {

/// A stretch of one thread, in microseconds.
struct KinetoRange {
  double start = 0, end = 0;
  std::int32_t label = -1;   ///< index into KinetoStep::labels
  std::int32_t parent = -1;  ///< index of the range around it; -1: none
};

/// Ranges of one kind on one thread, nested.
class RangeTree {
 public:
  void add(double start, double end, std::int32_t label) { ranges_.push_back({start, end, label}); }
  /// Sorts and finds parents. Call it once, after the last add().
  void build();
  /// Returns the innermost range around `time`, or -1.
  [[nodiscard]] std::int32_t innermost(double time) const;
  [[nodiscard]] const std::vector<KinetoRange>& ranges() const noexcept { return ranges_; }
  [[nodiscard]] const KinetoRange& operator[](std::int32_t index) const {
    return ranges_[static_cast<std::size_t>(index)];
  }

 private:
  std::vector<KinetoRange> ranges_;
};

/// Point in a thread's time.
struct KinetoPoint {
  std::int32_t thread = -1;
  double time = 0;
};

struct KinetoThread {
  RangeTree annotations;  ///< modules and user annotations
  RangeTree nodes;        ///< functions that autograd evaluates
  /// Links from the start of a node's operator to the forward operator that made the node.
  std::map<double, KinetoPoint> origins;
};

struct KinetoActivity {
  std::int64_t correlation = -1;
  Seconds seconds = 0;
  KernelClass kind = KernelClass::Other;
};

struct KinetoStep {
  std::optional<std::int64_t> number;
  std::string device;
  std::int32_t main_thread = -1;  ///< thread that runs forward; -1: not known
  std::vector<std::string> labels;
  std::vector<KinetoThread> threads;
  std::unordered_map<std::int64_t, KinetoPoint> launches;  ///< by correlation
  std::vector<KinetoActivity> activities;
};

/// Start of the name of a module's python_function range. Class and number follow.
inline constexpr std::string_view kModulePrefix = "nn.Module: ";

[[nodiscard]] KinetoStep load_kineto_step(const OpenTrace& open, const std::string& where,
                                          std::optional<std::int64_t> wanted);

}  // namespace athanor
