// SPDX-License-Identifier: Apache-2.0
// Tensors of a Hugging Face folder, where they are not the parameters one by one.
#pragma once

#include "sim/model/architecture.hpp"

#include <cstddef>
#include <vector>

namespace athanor {

/// One tensor of a model's files: consecutive parameters of a unit, one after the other.
struct StoredTensor {
  Parameter tensor;  ///< its name and shape
  std::size_t first = 0, count = 1;
};

/// Lists the tensors of `unit` in the order of its parameters. Each is one of them, except that
/// granitemoe's files have all experts' gates and ups in one tensor, and all downs in another.
[[nodiscard]] std::vector<StoredTensor> stored_tensors(const Architecture& architecture,
                                                       const Unit& unit);

}  // namespace athanor
