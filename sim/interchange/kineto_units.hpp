// SPDX-License-Identifier: Apache-2.0
// Units of an architecture that the modules and annotations of a trace belong to. Internal to this
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

  /// Returns the unit that runs at `point`: the unit of the innermost range that has one. Inside a
  /// model, the first unit runs before the first block, and the last unit after the last block.
  /// That is because final norm, head and loss have no name of their own in a trace. Returns
  /// nothing elsewhere.
  [[nodiscard]] std::optional<std::size_t> at(const KinetoPoint& point) const;

  /// Returns the largest number of times that one module ran forward on the main thread.
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
  std::map<std::string, std::int32_t, std::less<>> paths_;  ///< kSeveral: in more than one unit
  std::vector<std::int32_t> units_;                         ///< by label; -1: no unit
  std::vector<std::vector<std::int32_t>> blocks_;  ///< by thread: indices of ranges, ascending
  std::int64_t passes_ = 1;
};

}  // namespace athanor
