// SPDX-License-Identifier: Apache-2.0
// File of the measurements that a power model is fitted to: `athanor.power-bursts/1`, see
// traces/README.md.
#pragma once

#include "calibrate/power/power_fit.hpp"
#include "sim/model/provenance.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// Writes the file.
[[nodiscard]] std::string to_json(const PowerMeasurements& measured, const Provenance& provenance);

/// Reads the file. Throws InputError that names file, key and value for anything else.
[[nodiscard]] PowerMeasurements parse_power_bursts(std::string_view text, const std::string& file);

}  // namespace athanor
