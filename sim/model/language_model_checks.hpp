// SPDX-License-Identifier: Apache-2.0
// Validators of architecture.hpp for a value inside a larger file.
#pragma once

#include "sim/base/value_path.hpp"
#include "sim/model/architecture.hpp"

#include <functional>
#include <string_view>

namespace athanor {

/// Throws InputError when a borrow, a name or a shape is impossible.
void check_architecture(const Architecture& architecture, const ValuePath& path);
/// Throws InputError when no model can have these hyperparameters. `path_of` maps the name of a
/// field of LanguageModelConfig to its path.
void check_config(const LanguageModelConfig& config,
                  const std::function<ValuePath(std::string_view field)>& path_of);

}  // namespace athanor
