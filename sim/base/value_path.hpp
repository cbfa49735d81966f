// SPDX-License-Identifier: Apache-2.0
// Where a value stands ("profile.json:costs[3].backward.seconds") and the checks that name it.
// Shared by the validators and the JSON reader of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace athanor {

/// Bounds that keep every product and sum of file values inside int64 and exact in a double.
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;
inline constexpr double kMaxNumber = 1e24;
inline constexpr double kMaxSeconds = 1e9;
inline constexpr double kMaxWatts = 1e6;

class ValuePath {
 public:
  explicit ValuePath(std::string file) : file_(std::move(file)) {}
  [[nodiscard]] ValuePath key(std::string_view name) const;
  [[nodiscard]] ValuePath item(std::size_t index) const;
  [[nodiscard]] std::string text() const;
  [[noreturn]] void reject(const std::string& problem, const std::string& hint) const;

 private:
  std::string file_;
  std::string path_;
};

/// Throws InputError unless minimum <= value <= maximum.
void check_integer(const ValuePath& place, std::int64_t value, std::int64_t minimum,
                   std::int64_t maximum = kMaxCount);
/// Throws InputError unless the value is finite and minimum <= value <= maximum.
void check_number(const ValuePath& place, double value, double minimum,
                  double maximum = kMaxNumber);
/// Throws InputError for a number that is not finite and above 0.
void check_positive(const ValuePath& place, double value, double maximum = kMaxNumber);
/// Throws InputError for an empty name or one that is longer than 1000 characters.
void check_name(const ValuePath& place, const std::string& value);

}  // namespace athanor
