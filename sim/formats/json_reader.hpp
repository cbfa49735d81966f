// SPDX-License-Identifier: Apache-2.0
// Typed access to JSON in which every complaint names file:key.path. Internal to this folder.
#pragma once

#include "sim/base/value_path.hpp"
#include "sim/model/enum_names.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Limits of a document of any kind. They stand here for every reader of JSON, so that a
/// file of some megabytes cannot take gigabytes: a value takes up to 100 bytes when it is read.
inline constexpr int kMaxNesting = 64;
inline constexpr std::int64_t kMaxValues = 2'000'000;

/// Parses `text`. Throws InputError for anything that is not one JSON value, for a number too
/// large for a double, for a key given twice in one object, and beyond the limits above; traces
/// may have more values.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& file,
                                        std::int64_t max_values = kMaxValues);

/// One value of a document that outlives it. An object remembers which keys were asked for.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& value, ValuePath path)
      : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const ValuePath& path() const noexcept { return path_; }
  [[noreturn]] void reject(const std::string& problem, const std::string& hint) const {
    path_.reject(problem, hint);
  }

  /// Member of an object. Throws InputError when it is missing.
  [[nodiscard]] JsonReader key(const std::string& name);
  /// Member of an object; nothing when it is missing or null.
  [[nodiscard]] std::optional<JsonReader> optional_key(const std::string& name);
  [[nodiscard]] bool has(const std::string& name) const;
  /// Throws InputError for the first key that was never asked for.
  void reject_other_keys() const;
  [[nodiscard]] std::vector<JsonReader> items() const;
  /// Names of an object's members.
  [[nodiscard]] std::vector<std::string> keys() const;

  [[nodiscard]] bool is_string() const noexcept { return value_->is_string(); }
  [[nodiscard]] bool is_number() const noexcept { return value_->is_number(); }
  [[nodiscard]] std::string string() const;
  [[nodiscard]] std::string name() const;  ///< a string that check_name accepts
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer(std::int64_t minimum, std::int64_t maximum = kMaxCount) const;
  [[nodiscard]] int small_integer(int minimum) const;  ///< at most one million
  [[nodiscard]] double number() const;

  /// Value whose name in `table` the string is. Throws InputError for any other string.
  template <typename Value, std::size_t kSize>
  [[nodiscard]] Value choice(const NameTable<Value, kSize>& table) const {
    const std::string given = string();
    if (const auto value = value_of(table, given)) {
      return *value;
    }
    constexpr std::size_t kShown = 60;
    reject("unknown value '" + given.substr(0, kShown) + "'", "Use one of " + listed(table) + ".");
  }

 private:
  [[noreturn]] void reject_type(std::string_view expected) const;
  void require_object() const;

  const nlohmann::json* value_;
  ValuePath path_;
  std::vector<std::string> known_keys_;
};

/// Checks `"schema": "athanor.KIND/VERSION"` and returns the version, which is 1 to `newest`.
/// `command` is the verb that makes such a file anew. Throws InputError for any other schema.
int check_schema(JsonReader& document, const std::string& kind, const std::string& command,
                 int newest = 1);

}  // namespace athanor
