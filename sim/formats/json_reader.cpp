// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/json_reader.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/nearest_name.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace athanor {
namespace {

using Json = nlohmann::json;

/// Path of the key that the parser reads. Rejects a key that an object has twice, and a document
/// beyond the limits.
class KeyTracker {
 public:
  KeyTracker(std::string file, std::int64_t max_values)
      : file_(std::move(file)), max_values_(max_values) {}

  void visit(int depth, Json::parse_event_t event, const Json& value) {
    check_limits(depth);
    if (event == Json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      visit_key(value.get_ref<const std::string&>());
    }
  }

  [[nodiscard]] ValuePath path() const {
    ValuePath path(file_);
    for (const Object& object : open_) {
      path = object.current.empty() ? path : path.key(object.current);
    }
    return path;
  }

 private:
  struct Object {
    std::set<std::string> keys;
    std::string current;
  };

  void check_limits(int depth) {
    if (depth > kMaxNesting) {
      ValuePath(file_).reject(fmt::format("more than {} levels of brackets", kMaxNesting),
                              "Is it the right file?");
    }
    if (++num_events_ > 2 * max_values_) {
      ValuePath(file_).reject(fmt::format("more than {} values", max_values_),
                              "Is it the right file?");
    }
  }

  void visit_key(const std::string& name) {
    open_.back().current = name;
    if (!open_.back().keys.insert(name).second) {
      path().reject("the key is there twice", "Remove one of the two.");
    }
  }

  std::string file_;
  std::int64_t max_values_, num_events_ = 0;
  std::vector<Object> open_;
};

/// Message without its bracket: "[json.exception.parse_error.101] parse error at line 1 ..".
std::string reason_of(const Json::exception& error) {
  const std::string_view message = error.what();
  const auto bracket = message.find("] ");
  return std::string(bracket == std::string_view::npos ? message : message.substr(bracket + 2));
}

}  // namespace

Json parse_json(std::string_view text, const std::string& file, std::int64_t max_values) {
  KeyTracker tracker(file, max_values);
  try {
    return Json::parse(text, [&tracker](int depth, Json::parse_event_t event, Json& value) {
      tracker.visit(depth, event, value);
      return true;
    });
  } catch (const Json::exception& error) {
    tracker.path().reject("not valid JSON: " + reason_of(error),
                          "Was the file cut short or edited by hand?");
  }
}

JsonReader JsonReader::key(const std::string& name) {
  require_object();
  known_keys_.push_back(name);
  const auto found = value_->find(name);
  if (found == value_->end()) {
    path_.key(name).reject("the key is missing", "Add it, or make the file again.");
  }
  return {*found, path_.key(name)};
}

std::optional<JsonReader> JsonReader::optional_key(const std::string& name) {
  require_object();
  known_keys_.push_back(name);
  const auto found = value_->find(name);
  if (found == value_->end() || found->is_null()) {
    return std::nullopt;
  }
  return JsonReader{*found, path_.key(name)};
}

bool JsonReader::has(const std::string& name) const {
  require_object();
  return value_->contains(name);
}

void JsonReader::reject_other_keys() const {
  for (const auto& [name, value] : value_->items()) {
    if (std::find(known_keys_.begin(), known_keys_.end(), name) == known_keys_.end()) {
      path_.key(name).reject(
          "unknown key",
          nearest_hint(name, known_keys_,
                       fmt::format("Known here: {}.", fmt::join(known_keys_, ", "))));
    }
  }
}

std::vector<JsonReader> JsonReader::items() const {
  if (!value_->is_array()) {
    reject_type("an array");
  }
  std::vector<JsonReader> items;
  items.reserve(value_->size());
  for (const Json& item : *value_) {
    items.emplace_back(item, path_.item(items.size()));
  }
  return items;
}

std::vector<std::string> JsonReader::keys() const {
  require_object();
  std::vector<std::string> keys;
  for (const auto& [name, value] : value_->items()) {
    keys.push_back(name);
  }
  return keys;
}

std::string JsonReader::string() const {
  if (!value_->is_string()) {
    reject_type("a string");
  }
  return value_->get<std::string>();
}

std::string JsonReader::name() const {
  std::string text = string();
  check_name(path_, text);
  return text;
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) {
    reject_type("true or false");
  }
  return value_->get<bool>();
}

std::int64_t JsonReader::integer(std::int64_t minimum, std::int64_t maximum) const {
  if (!value_->is_number_integer()) {
    reject_type("a whole number");
  }
  const bool beyond = value_->is_number_unsigned() &&
                      value_->get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxCount);
  if (beyond) {
    reject(fmt::format("{} is out of range", value_->get<std::uint64_t>()),
           fmt::format("Use a whole number from {} to {}.", minimum, maximum));
  }
  const auto value = value_->get<std::int64_t>();
  check_integer(path_, value, minimum, maximum);
  return value;
}

int JsonReader::small_integer(int minimum) const {
  constexpr int kMaximum = 1'000'000;
  return static_cast<int>(integer(minimum, kMaximum));
}

double JsonReader::number() const {
  if (!value_->is_number()) {
    reject_type("a number");
  }
  return value_->get<double>();
}

void JsonReader::reject_type(std::string_view expected) const {
  constexpr std::size_t kShown = 40;
  std::string shown = value_->is_structured()
                          ? std::string(value_->type_name())
                          : value_->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > kShown) {
    shown = shown.substr(0, kShown) + "..";
  }
  reject(fmt::format("expected {}, found {}", expected, shown), "Correct the value.");
}

void JsonReader::require_object() const {
  if (!value_->is_object()) {
    reject_type("an object");
  }
}

int check_schema(JsonReader& document, const std::string& kind, const std::string& command,
                 int newest) {
  const std::string way_out =
      fmt::format("Name the {} that `athanor {}` wrote, or make it again.", kind, command);
  if (!document.has("schema")) {
    document.path().key("schema").reject(
        fmt::format("the key is missing, so it is no {} of athanor", kind), way_out);
  }
  const JsonReader schema = document.key("schema");
  const std::string found = schema.string();
  std::vector<std::string> readable;
  for (int version = 1; version <= newest; ++version) {
    readable.push_back(fmt::format("athanor.{}/{}", kind, version));
    if (found == readable.back()) return version;
  }
  const bool is_other = !found.starts_with(fmt::format("athanor.{}/", kind));
  schema.reject(
      fmt::format("'{}' cannot be read here, which reads '{}'", found, fmt::join(readable, "', '")),
      is_other ? way_out : fmt::format("Make the file again with `athanor {}`.", command));
}

}  // namespace athanor
