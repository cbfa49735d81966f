// SPDX-License-Identifier: Apache-2.0
// The model families. Each function makes one module per unit of `architecture`, whose language
// model configuration must be of that family.
#pragma once

#include "executor/units/language_unit.hpp"

#include <memory>
#include <vector>

namespace athanor {

using LanguageUnits = std::vector<std::shared_ptr<LanguageUnit>>;

[[nodiscard]] LanguageUnits make_gpt2_units(const Architecture& architecture, DataType dtype);
[[nodiscard]] LanguageUnits make_opt_units(const Architecture& architecture, DataType dtype);
/// llama, mistral, qwen2 and qwen3.
[[nodiscard]] LanguageUnits make_llama_units(const Architecture& architecture, DataType dtype);

}  // namespace athanor
