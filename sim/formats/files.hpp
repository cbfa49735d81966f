// SPDX-License-Identifier: Apache-2.0
// Readers and writers of artefacts. Every file carries "schema": "athanor.KIND/VERSION" and is
// validated whole before anything uses it; every reader throws InputError (file:key.path, value,
// way out).
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/rates/rates.hpp"

#include <string>
#include <string_view>

namespace athanor {

[[nodiscard]] Profile read_profile(const std::string& path);
[[nodiscard]] Platform read_platform(const std::string& path);
[[nodiscard]] Plan read_plan(const std::string& path);
[[nodiscard]] MeasuredRates read_rates(const std::string& path);

/// Readers of text in memory. `where` stands for the file in messages.
[[nodiscard]] Profile parse_profile(std::string_view text, const std::string& where);
[[nodiscard]] Platform parse_platform(std::string_view text, const std::string& where);
[[nodiscard]] Plan parse_plan(std::string_view text, const std::string& where);
[[nodiscard]] MeasuredRates parse_rates(std::string_view text, const std::string& where);

/// Text of the newest schema.
[[nodiscard]] std::string to_json(const Profile& profile);
[[nodiscard]] std::string to_json(const Platform& platform);
[[nodiscard]] std::string to_json(const Plan& plan);
[[nodiscard]] std::string to_json(const MeasuredRates& rates);

}  // namespace athanor
