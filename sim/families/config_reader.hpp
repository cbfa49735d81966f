// SPDX-License-Identifier: Apache-2.0
// ConfigReader: the keys of a config.json that shape a model, with transformers' defaults for those
// that are missing.
#pragma once

#include "sim/base/value_path.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Limits that keep a model small enough to be listed parameter by parameter.
inline constexpr std::int64_t kMaxBlocks = 4096;
inline constexpr std::int64_t kMaxExperts = 4096;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 30;

/// One object of a config.json, which outlives it. Functions throw InputError that names the key.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, ValuePath path);

  /// Count under `key`; `missing` where the key is.
  [[nodiscard]] std::int64_t count(const char* key, std::int64_t missing,
                                   std::int64_t maximum = kMaxWidth) const;
  /// Count under the first of `keys` that is there: an older name may stand beside the newer.
  [[nodiscard]] std::int64_t count_of(std::initializer_list<const char*> keys, std::int64_t missing,
                                      std::int64_t maximum = kMaxWidth) const;
  /// Count under `key`; `null` where the value is null.
  [[nodiscard]] std::int64_t count_or(const char* key, std::int64_t missing,
                                      std::int64_t null) const;
  /// Count under `key`, from 0; nothing where the key is missing or null.
  [[nodiscard]] std::optional<std::int64_t> optional_count(const char* key) const;
  /// Number under `key`, from 0 to `maximum`; `missing` where the key is.
  [[nodiscard]] double number(const char* key, double missing, double maximum) const;
  [[nodiscard]] bool flag(const char* key, bool missing) const;
  [[nodiscard]] std::string text(const char* key, const std::string& missing) const;
  [[nodiscard]] bool is_list(const char* key) const;
  [[nodiscard]] bool is_text(const char* key) const;
  [[nodiscard]] bool has(const char* key) const;  ///< there, and not null
  /// Counts of a list, from 0; `missing` where the key is missing or null.
  [[nodiscard]] std::vector<std::int64_t> counts(const char* key,
                                                 std::vector<std::int64_t> missing) const;
  /// Strings of a list; none where the key is missing or null.
  [[nodiscard]] std::vector<std::string> texts(const char* key) const;
  /// Object under `key`; an empty one where the key is missing or null.
  [[nodiscard]] ConfigReader object(const char* key) const;
  [[nodiscard]] std::int64_t size(const char* key) const;  ///< members of a list or an object, or 0

  /// Throws InputError unless the switch is at the one setting whose sizes are known.
  void require(const char* key, bool setting, bool missing) const;
  /// Returns whole / parts. Throws InputError, which names `key`, where that is no whole number.
  [[nodiscard]] std::int64_t share(const char* key, std::int64_t whole, std::int64_t parts) const;
  [[noreturn]] void reject(const char* key, const std::string& problem,
                           const std::string& hint) const;

 private:
  [[nodiscard]] const nlohmann::json* find(const char* key) const;  ///< null where missing

  const nlohmann::json* object_;
  ValuePath path_;
};

}  // namespace athanor
