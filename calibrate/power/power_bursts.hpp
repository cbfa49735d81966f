// SPDX-License-Identifier: Apache-2.0
// The file that keeps what a power model was fitted to: `athanor.power-bursts/1`, see
// traces/README.md.
#pragma once

#include "calibrate/power/power_fit.hpp"
#include "sim/model/provenance.hpp"

#include <string>
#include <string_view>

namespace athanor {

[[nodiscard]] std::string to_json(const PowerMeasurements& measured, const Provenance& provenance);

/// Throws InputError naming file, key and value for what is no such file.
[[nodiscard]] PowerMeasurements parse_power_bursts(std::string_view text, const std::string& file);

}  // namespace athanor
