// SPDX-License-Identifier: Apache-2.0
// ValuePath: the path of a value in a file, and range checks that name it. Validators and the JSON
// reader share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace athanor {

/// Limits that keep every product and sum of file values inside int64 and exact in a double.
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;
inline constexpr double kMaxNumber = 1e24;
inline constexpr double kMaxSeconds = 1e9;
inline constexpr double kMaxWatts = 1e6;

/// Path of a value, written "profile.json:costs[3].backward.seconds".
class ValuePath {
 public:
  explicit ValuePath(std::string file) : file_(std::move(file)) {}
  /// Path of the member `name` of an object.
  [[nodiscard]] ValuePath key(std::string_view name) const;
  /// Path of an element of an array.
  [[nodiscard]] ValuePath item(std::size_t index) const;
  [[nodiscard]] std::string text() const;
  /// Throws InputError that names this path.
  [[noreturn]] void reject(const std::string& problem, const std::string& hint) const;

 private:
  std::string file_;
  std::string path_;
};

/// Throws InputError unless minimum <= value <= maximum.
void check_integer(const ValuePath& path, std::int64_t value, std::int64_t minimum,
                   std::int64_t maximum = kMaxCount);
/// Throws InputError unless the value is finite and minimum <= value <= maximum.
void check_number(const ValuePath& path, double value, double minimum, double maximum = kMaxNumber);
/// Throws InputError for a number that is not finite and above 0.
void check_positive(const ValuePath& path, double value, double maximum = kMaxNumber);
/// Throws InputError for a name that is empty, longer than 1000 characters or not fit to be shown.
void check_name(const ValuePath& path, const std::string& value);

}  // namespace athanor
