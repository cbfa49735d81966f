// SPDX-License-Identifier: Apache-2.0
// Tables that pair the values of an enumeration with the names that files, options and messages
// use. A table stands in the room of its enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace athanor {

/// Pairs of name and value. Names are string literals, so that name_of(..).data() ends in zero.
template <typename Value, std::size_t kSize>
using NameTable = std::array<std::pair<std::string_view, Value>, kSize>;

/// Name of `value`; "unknown" for a value that the table does not hold.
template <typename Value, std::size_t kSize>
[[nodiscard]] constexpr std::string_view name_of(const NameTable<Value, kSize>& table,
                                                 Value value) noexcept {
  for (const auto& [name, candidate] : table) {
    if (candidate == value) return name;
  }
  return "unknown";
}

/// Value with that name; nothing for an unknown name.
template <typename Value, std::size_t kSize>
[[nodiscard]] std::optional<Value> value_of(const NameTable<Value, kSize>& table,
                                            std::string_view name) noexcept {
  for (const auto& [candidate, value] : table) {
    if (candidate == name) return value;
  }
  return std::nullopt;
}

/// All names, for messages: "keep, recompute".
template <typename Value, std::size_t kSize>
[[nodiscard]] std::string listed(const NameTable<Value, kSize>& table) {
  std::string list;
  for (const auto& [name, value] : table) {
    list.append(list.empty() ? "" : ", ").append(name);
  }
  return list;
}

}  // namespace athanor
