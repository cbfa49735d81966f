// SPDX-License-Identifier: Apache-2.0
#include "sim/families/config_reader.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor {
namespace {

std::int64_t whole_number(const nlohmann::json& value, const ValuePath& path, std::int64_t minimum,
                          std::int64_t maximum) {
  const bool beyond = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxCount);
  if (!value.is_number_integer() || beyond) {
    path.reject("is no whole number of this size",
                fmt::format("Use one from {} to {}.", minimum, maximum));
  }
  const auto number = value.get<std::int64_t>();
  check_integer(path, number, minimum, maximum);
  return number;
}

std::string string_of(const nlohmann::json& value, const ValuePath& path) {
  if (!value.is_string()) path.reject("is no text", "Write it in quotes.");
  return value.get<std::string>();
}

void require_list(const nlohmann::json& value, const ValuePath& path) {
  if (!value.is_array()) path.reject("is no list", "Write it in brackets.");
}

}  // namespace

ConfigReader::ConfigReader(const nlohmann::json& object, ValuePath path)
    : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) path_.reject("is no object", "Use the model's own config.json.");
}

const nlohmann::json* ConfigReader::find(const char* key) const {
  const auto member = object_->find(key);
  return member == object_->end() ? nullptr : &*member;
}

bool ConfigReader::has(const char* key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && !value->is_null();
}

std::int64_t ConfigReader::count(const char* key, std::int64_t missing,
                                 std::int64_t maximum) const {
  const nlohmann::json* value = find(key);
  return value == nullptr ? missing : whole_number(*value, path_.key(key), 1, maximum);
}

std::int64_t ConfigReader::count_of(std::initializer_list<const char*> keys, std::int64_t missing,
                                    std::int64_t maximum) const {
  for (const char* key : keys) {
    if (has(key)) return count(key, missing, maximum);
  }
  return missing;
}

std::int64_t ConfigReader::count_or(const char* key, std::int64_t missing,
                                    std::int64_t null) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_null() ? null : count(key, missing);
}

std::optional<std::int64_t> ConfigReader::optional_count(const char* key) const {
  if (!has(key)) return std::nullopt;
  return whole_number(*find(key), path_.key(key), 0, kMaxWidth);
}

double ConfigReader::number(const char* key, double missing, double maximum) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return missing;
  if (!value->is_number()) path_.key(key).reject("is no number", "Write it without quotes.");
  check_number(path_.key(key), value->get<double>(), 0, maximum);
  return value->get<double>();
}

bool ConfigReader::flag(const char* key, bool missing) const {
  if (!has(key)) return missing;
  if (!find(key)->is_boolean()) path_.key(key).reject("is no switch", "Use true or false.");
  return find(key)->get<bool>();
}

bool ConfigReader::is_list(const char* key) const { return has(key) && find(key)->is_array(); }

bool ConfigReader::is_text(const char* key) const { return has(key) && find(key)->is_string(); }

std::string ConfigReader::text(const char* key, const std::string& missing) const {
  return has(key) ? string_of(*find(key), path_.key(key)) : missing;
}

std::vector<std::int64_t> ConfigReader::counts(const char* key,
                                               std::vector<std::int64_t> missing) const {
  if (!has(key)) return missing;
  const ValuePath path = path_.key(key);
  require_list(*find(key), path);
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& item : *find(key)) {
    numbers.push_back(whole_number(item, path.item(numbers.size()), 0, kMaxWidth));
  }
  return numbers;
}

std::vector<std::string> ConfigReader::texts(const char* key) const {
  if (!has(key)) return {};
  const ValuePath path = path_.key(key);
  require_list(*find(key), path);
  std::vector<std::string> names;
  for (const nlohmann::json& item : *find(key)) {
    names.push_back(string_of(item, path.item(names.size())));
  }
  return names;
}

ConfigReader ConfigReader::object(const char* key) const {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  return {has(key) ? *find(key) : kEmpty, path_.key(key)};
}

std::int64_t ConfigReader::size(const char* key) const {
  return has(key) ? static_cast<std::int64_t>(find(key)->size()) : 0;
}

void ConfigReader::require(const char* key, bool setting, bool missing) const {
  if (flag(key, missing) == setting) return;
  reject(key, fmt::format("the sizes of models with {} are not known", !setting),
         fmt::format("Only {} can be used.", setting));
}

std::int64_t ConfigReader::share(const char* key, std::int64_t whole, std::int64_t parts) const {
  if (whole % parts != 0) {
    reject(key, fmt::format("{} does not divide {}", parts, whole), "Use a number that does.");
  }
  return whole / parts;
}

void ConfigReader::reject(const char* key, const std::string& problem,
                          const std::string& hint) const {
  path_.key(key).reject(problem, hint);
}

}  // namespace athanor
