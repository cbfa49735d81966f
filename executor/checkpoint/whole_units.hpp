// SPDX-License-Identifier: Apache-2.0
// Units as checkpoints name them: with whole blocks. A model whose blocks are split therefore
// writes and reads the same checkpoints as one whose blocks are whole.
#pragma once

#include "sim/model/architecture.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// Maps the elements of a model's units to those of the same model with whole blocks.
class WholeUnits {
 public:
  /// Part of a range of a unit's flat parameters.
  struct Piece {
    std::int32_t unit = 0;                  ///< index in architecture()
    std::int64_t offset = 0, elements = 0;  ///< range in that unit
    std::int64_t at = 0;                    ///< first element in the range
  };

  explicit WholeUnits(const Architecture& architecture);

  /// Returns the model with whole blocks.
  [[nodiscard]] const Architecture& architecture() const noexcept { return whole_; }
  /// Returns the pieces of `elements` elements of `unit` from `offset` on, in order. The range has
  /// no padding behind the last parameter.
  [[nodiscard]] std::vector<Piece> pieces(std::int32_t unit, std::int64_t offset,
                                          std::int64_t elements) const;

 private:
  Architecture whole_;
  /// [unit of the model]: its parameters, one after another; `at` counts in the unit. Empty where
  /// units are alike.
  std::vector<std::vector<Piece>> pieces_;
};

}  // namespace athanor
