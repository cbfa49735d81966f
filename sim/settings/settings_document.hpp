// SPDX-License-Identifier: Apache-2.0
// A settings file of another system as one tree of values, whatever its format, with the line of
// each key. Internal to this folder.
#pragma once

#include "sim/base/quantities.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>

namespace athanor {

/// Limit of a settings file; people write them by hand.
inline constexpr Bytes kMaxSettings = kMiB;

struct SettingsDocument {
  std::string file;
  nlohmann::json root;               ///< an object
  std::map<std::string, int> lines;  ///< by path, "zero_optimization.stage"; keys inside arrays
                                     ///< have none
};

/// Each parses a whole file. They throw InputError where the text is not of their format, is no
/// object, has a key twice or is beyond the limits of json_reader.hpp.
[[nodiscard]] SettingsDocument parse_json_settings(std::string_view text, const std::string& file);
[[nodiscard]] SettingsDocument parse_yaml_settings(std::string_view text, const std::string& file);
[[nodiscard]] SettingsDocument parse_toml_settings(std::string_view text, const std::string& file);

}  // namespace athanor
