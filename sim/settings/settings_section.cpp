// SPDX-License-Identifier: Apache-2.0
#include "sim/settings/settings_section.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/nearest_name.hpp"
#include "sim/base/printable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace athanor {
namespace {

using Json = nlohmann::json;

constexpr double kMostElements = 1e15;

bool is_auto(const Json& value) { return value.is_string() && value.get<std::string>() == "auto"; }

/// Whether the value has no effect: the neutral one, absent, or a part that is switched off.
bool is_neutral(const Json& value, std::string_view neutral) {
  if (value.is_null() || is_auto(value)) return true;
  if (value.is_object()) {
    return value.empty() || (value.contains("enabled") && value.at("enabled") == false);
  }
  if (neutral == "false" && value == "no") return true;  // accelerate quotes it
  return !neutral.empty() && value == Json::parse(neutral);
}

}  // namespace

std::string text_of(const Origin& origin) {
  return origin.line > 0 ? fmt::format("{} (line {})", origin.key, origin.line) : origin.key;
}

SettingsSection::SettingsSection(const SettingsDocument& document)
    : SettingsSection(document, &document.root, "") {}

SettingsSection::SettingsSection(const SettingsDocument& document, const Json* object,
                                 std::string path)
    : document_(&document), object_(object), path_(std::move(path)) {}

bool SettingsSection::has(const std::string& key) const {
  return object_ != nullptr && object_->contains(key) && !object_->at(key).is_null();
}

const Json* SettingsSection::find(const std::string& key) {
  known_.push_back(key);
  return has(key) ? &object_->at(key) : nullptr;
}

Origin SettingsSection::origin(const std::string& key) const {
  const std::string path = path_.empty() ? key : path_ + "." + key;
  const auto line = document_->lines.find(path);
  return {path, line == document_->lines.end() ? 0 : line->second};
}

SettingsSection SettingsSection::section(const std::string& key) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) reject_type(key, "a section of keys");
  return {*document_, value, origin(key).key};
}

Setting<bool> SettingsSection::flag(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr || is_auto(*value)) return {otherwise, origin(key), value != nullptr};
  if (value->is_boolean()) return {value->get<bool>(), origin(key), false};
  if (value->is_string()) {  // accelerate's files have quotes around some
    const auto text = value->get<std::string>();
    if (text == "true" || text == "True" || text == "yes") return {true, origin(key), false};
    if (text == "false" || text == "False" || text == "no") return {false, origin(key), false};
  }
  reject_type(key, "true or false");
}

Setting<std::int64_t> SettingsSection::count(const std::string& key, std::int64_t otherwise,
                                             std::int64_t lowest) {
  const Json* value = find(key);
  if (value == nullptr || is_auto(*value)) return {otherwise, origin(key), value != nullptr};
  if (!value->is_number()) reject_type(key, "a whole number");
  const auto number = value->get<double>();
  if (std::floor(number) != number) reject_type(key, "a whole number");
  if (number < static_cast<double>(lowest) || number > kMostElements) {
    reject(key, fmt::format("{} is out of range", number),
           fmt::format("Use a whole number of {} or more.", lowest));
  }
  return {static_cast<std::int64_t>(number), origin(key), false};
}

Setting<double> SettingsSection::number(const std::string& key, double otherwise, double highest) {
  const Json* value = find(key);
  if (value == nullptr || is_auto(*value)) return {otherwise, origin(key), value != nullptr};
  if (!value->is_number()) reject_type(key, "a number");
  const auto number = value->get<double>();
  const bool in_range = number >= 0 && number <= highest;  // false for NaN
  if (!in_range) {
    reject(key, fmt::format("{} is out of range", number),
           fmt::format("Use a number from 0 to {}.", highest));
  }
  return {number, origin(key), false};
}

Setting<std::string> SettingsSection::word(const std::string& key, const std::string& otherwise) {
  const Json* value = find(key);
  if (value == nullptr || is_auto(*value)) return {otherwise, origin(key), value != nullptr};
  if (!value->is_string()) reject_type(key, "a word");
  return {value->get<std::string>(), origin(key), false};
}

Setting<std::string> SettingsSection::choice(const std::string& key,
                                             std::initializer_list<const char*> choices) {
  const Setting<std::string> chosen = word(key, *choices.begin());
  if (std::ranges::find(choices, chosen.value) == choices.end()) {
    reject(key, fmt::format("unknown value '{}'", shown(key)),
           fmt::format("Use one of {}.", fmt::join(choices, ", ")));
  }
  return chosen;
}

Setting<Home> SettingsSection::device(const std::string& key) {
  const Setting<std::string> device = choice(key, {"none", "cpu", "nvme"});
  const Home home = device.value == "none"  ? Home::Gpu
                    : device.value == "cpu" ? Home::Host
                                            : Home::Nvme;
  return {home, device.origin, false};
}

void SettingsSection::pass_over(std::initializer_list<const char*> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void SettingsSection::unmodelled(std::span<const UnmodelledKey> keys,
                                 std::vector<std::string>& notes) {
  for (const UnmodelledKey& entry : keys) {
    const std::string key(entry.key);
    const Json* value = find(key);
    if (value == nullptr || is_neutral(*value, entry.neutral)) continue;
    if (entry.is_error) {
      reject(key, fmt::format("{} is not modelled: {}", shown(key), entry.meaning),
             "Take the key out to see a prediction without it.");
    }
    notes.push_back(fmt::format("not modelled: {} = {}, which means: {}", text_of(origin(key)),
                                shown(key), entry.meaning));
  }
}

std::vector<std::string> SettingsSection::other_keys() const {
  std::vector<std::string> others;
  if (object_ == nullptr) return others;
  for (const auto& [key, value] : object_->items()) {
    if (std::ranges::find(known_, key) == known_.end()) others.push_back(key);
  }
  return others;
}

void SettingsSection::reject_other_keys() const {
  for (const std::string& key : other_keys()) {
    reject(key, "unknown key",
           nearest_hint(key, known_, fmt::format("Known here: {}.", fmt::join(known_, ", "))));
  }
}

void SettingsSection::note_other_keys(std::vector<std::string>& notes) const {
  for (const std::string& key : other_keys()) {
    const std::string nearest = nearest_name(key, known_);
    notes.push_back(fmt::format("not read: {}, which is unknown here{}",
                                printable(text_of(origin(key))),
                                nearest.empty() ? "" : fmt::format(": is it '{}'?", nearest)));
  }
}

std::string SettingsSection::shown(const std::string& key) const {
  if (!has(key)) return "absent";
  const Json& value = object_->at(key);
  constexpr std::size_t kShown = 60;
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "..";
  return printable(text);
}

void SettingsSection::reject(const std::string& key, const std::string& problem,
                             const std::string& hint) const {
  throw InputError(fmt::format("{}:{}", document_->file, text_of(origin(key))), problem, hint);
}

void SettingsSection::reject_type(const std::string& key, const std::string& expected) const {
  reject(key, fmt::format("expected {}, found {}", expected, shown(key)), "Correct the value.");
}

}  // namespace athanor
