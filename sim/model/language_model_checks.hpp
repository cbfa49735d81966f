// SPDX-License-Identifier: Apache-2.0
// The validators of architecture.hpp for a value inside a larger file. Internal to this folder.
#pragma once

#include "sim/base/value_path.hpp"
#include "sim/model/architecture.hpp"

#include <functional>
#include <string_view>

namespace athanor {

void check_architecture(const Architecture& architecture, const ValuePath& place);
/// `place_of` gives the place of a field by its name in LanguageModelConfig.
void check_config(const LanguageModelConfig& config,
                  const std::function<ValuePath(std::string_view field)>& place_of);

}  // namespace athanor
