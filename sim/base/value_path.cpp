// SPDX-License-Identifier: Apache-2.0
#include "sim/base/value_path.hpp"

#include "sim/base/errors.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace athanor {

ValuePath ValuePath::key(std::string_view name) const {
  ValuePath member = *this;
  if (!member.path_.empty()) {
    member.path_ += '.';
  }
  member.path_ += name;
  return member;
}

ValuePath ValuePath::item(std::size_t index) const {
  ValuePath element = *this;
  element.path_ += fmt::format("[{}]", index);
  return element;
}

std::string ValuePath::text() const { return path_.empty() ? file_ : file_ + ":" + path_; }

void ValuePath::reject(const std::string& problem, const std::string& hint) const {
  throw InputError(text(), problem, hint);
}

void check_integer(const ValuePath& path, std::int64_t value, std::int64_t minimum,
                   std::int64_t maximum) {
  if (value < minimum || value > maximum) {
    path.reject(fmt::format("{} is out of range", value),
                fmt::format("Use a whole number from {} to {}.", minimum, maximum));
  }
}

void check_number(const ValuePath& path, double value, double minimum, double maximum) {
  if (!std::isfinite(value) || value < minimum || value > maximum) {
    path.reject(fmt::format("{} is out of range", value),
                fmt::format("Use a finite number from {} to {}.", minimum, maximum));
  }
}

void check_positive(const ValuePath& path, double value, double maximum) {
  if (!(value > 0)) {
    path.reject(fmt::format("{} is out of range", value), "Use a number above 0.");
  }
  check_number(path, value, 0, maximum);
}

void check_name(const ValuePath& path, const std::string& value) {
  constexpr std::size_t kMaxName = 1000;
  if (value.empty() || value.size() > kMaxName) {
    path.reject(fmt::format("a name of {} characters cannot be used", value.size()),
                fmt::format("Use 1 to {} characters.", kMaxName));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (std::any_of(value.begin(), value.end(), is_control)) {
    path.reject(fmt::format("'{}' has control characters", value), "Leave them out of the name.");
  }
}

}  // namespace athanor
