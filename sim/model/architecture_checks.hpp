// SPDX-License-Identifier: Apache-2.0
// The validators of architecture.hpp for a value inside a larger file. Internal to this folder.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/place.hpp"

namespace athanor {

void check_architecture(const Architecture& architecture, const Place& place);
void check_config(const LanguageModelConfig& config, const Place& place);

}  // namespace athanor
