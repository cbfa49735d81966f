// SPDX-License-Identifier: Apache-2.0
// Unit of an architecture that a module or annotation of a trace belongs to. Internal to this
// folder.
#pragma once

#include "sim/interchange/kineto_step.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

class KinetoUnits {
 public:
  KinetoUnits(const Architecture& architecture, const KinetoStep& step);

  /// Returns the unit that runs at `point`: that of the innermost range with one. Inside a model it
  /// is the first unit before the first block, and the last unit after the last block, because
  /// final norm, head and loss have no name of their own in a trace. Nothing if neither holds.
  [[nodiscard]] std::optional<std::size_t> at(const KinetoPoint& point) const;

  /// Returns how often one and the same module ran on the main thread, at most.
  [[nodiscard]] std::int64_t passes() const noexcept { return passes_; }

 private:
  [[nodiscard]] std::int32_t unit_of(std::string_view label) const;
  [[nodiscard]] std::int32_t unit_of_class(std::string_view module) const;
  void find_blocks();
  void count_passes();
  [[nodiscard]] std::optional<std::size_t> beside_blocks(std::size_t thread,
                                                         const KinetoRange& model,
                                                         double time) const;

  const Architecture& architecture_;
  const KinetoStep& step_;
  std::map<std::string, std::int32_t, std::less<>> paths_;  ///< kSeveral: of more than one unit
  std::vector<std::int32_t> units_;                         ///< by label; -1: none
  std::vector<std::vector<std::int32_t>> blocks_;           ///< by thread: ranges, ascending
  std::int64_t passes_ = 1;
};

}  // namespace athanor
