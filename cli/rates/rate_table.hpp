// SPDX-License-Identifier: Apache-2.0
// Rates before and after a run, for people and programs.
#pragma once

#include "sim/rates/combined_rates.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor::cli {

/// Returns an array of objects, one for each rate and one for the launches, if they were measured.
[[nodiscard]] nlohmann::ordered_json rates_json(const CombinedRates& combined);

/// Returns a table, those first that changed a step's work the most. Empty if nothing was measured.
[[nodiscard]] std::string rates_text(const CombinedRates& combined);

}  // namespace athanor::cli
