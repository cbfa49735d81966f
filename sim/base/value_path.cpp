// SPDX-License-Identifier: Apache-2.0
#include "sim/base/value_path.hpp"

#include "sim/base/errors.hpp"

#include <fmt/core.h>

#include <cmath>

namespace athanor {

ValuePath ValuePath::key(std::string_view name) const {
  ValuePath place = *this;
  if (!place.path_.empty()) {
    place.path_ += '.';
  }
  place.path_ += name;
  return place;
}

ValuePath ValuePath::item(std::size_t index) const {
  ValuePath place = *this;
  place.path_ += fmt::format("[{}]", index);
  return place;
}

std::string ValuePath::text() const { return path_.empty() ? file_ : file_ + ":" + path_; }

void ValuePath::reject(const std::string& problem, const std::string& hint) const {
  throw InputError(text(), problem, hint);
}

void check_integer(const ValuePath& place, std::int64_t value, std::int64_t minimum,
                   std::int64_t maximum) {
  if (value < minimum || value > maximum) {
    place.reject(fmt::format("{} is out of range", value),
                 fmt::format("Use a whole number from {} to {}.", minimum, maximum));
  }
}

void check_number(const ValuePath& place, double value, double minimum, double maximum) {
  if (!std::isfinite(value) || value < minimum || value > maximum) {
    place.reject(fmt::format("{} is out of range", value),
                 fmt::format("Use a finite number from {} to {}.", minimum, maximum));
  }
}

void check_positive(const ValuePath& place, double value, double maximum) {
  if (!(value > 0)) {
    place.reject(fmt::format("{} is out of range", value), "Use a number above 0.");
  }
  check_number(place, value, 0, maximum);
}

void check_name(const ValuePath& place, const std::string& value) {
  constexpr std::size_t kMaxName = 1000;
  if (value.empty() || value.size() > kMaxName) {
    place.reject(fmt::format("a name of {} characters cannot be used", value.size()),
                 fmt::format("Use 1 to {} characters.", kMaxName));
  }
}

}  // namespace athanor
