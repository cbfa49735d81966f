// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/packing.hpp"

#include <algorithm>

namespace athanor {

bool Packing::is_divided() const {
  return std::any_of(document_starts.begin(), document_starts.end(),
                     [](const auto& starts) { return starts.size() > 1; });
}

}  // namespace athanor
