// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/settings/settings_document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace athanor {
namespace {

using Json = nlohmann::json;

bool is_one_of(std::string_view text, const auto& words) {
  return std::ranges::find(words, text) != words.end();
}

/// Returns the value of a scalar without quotes, by the rules of YAML 1.1, which Python's reader
/// follows: yes and on are true, and a number with an exponent has a point.
Json plain_value(const std::string& text) {
  constexpr std::array<std::string_view, 9> kTrue{"yes",  "Yes", "YES", "true", "True",
                                                  "TRUE", "on",  "On",  "ON"};
  constexpr std::array<std::string_view, 9> kFalse{"no",    "No",  "NO",  "false", "False",
                                                   "FALSE", "off", "Off", "OFF"};
  constexpr std::array<std::string_view, 5> kNull{"", "~", "null", "Null", "NULL"};
  if (is_one_of(text, kTrue)) return true;
  if (is_one_of(text, kFalse)) return false;
  if (is_one_of(text, kNull)) return nullptr;
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (std::from_chars(text.data(), end, whole) == std::from_chars_result{end, std::errc{}}) {
    return whole;
  }
  double number = 0;
  const bool has_point = text.find('.') != std::string::npos;
  if (has_point && std::from_chars(text.data(), end, number).ptr == end) return number;
  return text;
}

/// Converts yaml-cpp's nodes. It limits depth and number of values itself, because aliases may
/// repeat a node or contain themselves.
class YamlConverter {
 public:
  explicit YamlConverter(SettingsDocument& document) : document_(document) {}

  Json convert(const YAML::Node& node, const std::string& path, int depth) {
    if (depth > kMaxNesting || ++num_values_ > kMaxSettings) {
      throw InputError(document_.file,
                       fmt::format("too many values, or more than {} levels", kMaxNesting),
                       "Is it the right file?");
    }
    if (node.IsMap()) return object(node, path, depth);
    if (node.IsSequence()) {
      Json array = Json::array();
      for (const YAML::Node& item : node) array.push_back(convert(item, path, depth + 1));
      return array;
    }
    if (!node.IsScalar()) return nullptr;
    return node.Tag() == "?" ? plain_value(node.Scalar()) : Json(node.Scalar());
  }

 private:
  Json object(const YAML::Node& node, const std::string& path, int depth) {
    Json object = Json::object();
    for (const auto& member : node) {
      const int line = member.first.Mark().line + 1;
      if (!member.first.IsScalar()) {
        throw InputError(document_.file, fmt::format("line {}: a key that is no word", line),
                         "Is it the right file?");
      }
      const std::string& key = member.first.Scalar();
      const std::string inner = path.empty() ? key : path + "." + key;
      if (object.contains(key)) {
        throw InputError(fmt::format("{}:{} (line {})", document_.file, inner, line),
                         "the key is there twice", "Remove one of the two.");
      }
      object[key] = convert(member.second, inner, depth + 1);
      document_.lines.emplace(inner, line);
    }
    return object;
  }

  SettingsDocument& document_;
  std::int64_t num_values_ = 0;
};

}  // namespace

SettingsDocument parse_yaml_settings(std::string_view text, const std::string& file) {
  SettingsDocument document{file, nullptr, {}};
  try {
    document.root = YamlConverter(document).convert(YAML::Load(std::string(text)), "", 0);
  } catch (const YAML::Exception& error) {
    throw InputError(file,
                     fmt::format("not valid YAML: line {}: {}", error.mark.line + 1, error.msg),
                     "Was the file cut short or edited by hand?");
  }
  if (!document.root.is_object()) {
    throw InputError(file, "holds no settings: it has no lines \"key: value\"",
                     "Is it the right file?");
  }
  return document;
}

}  // namespace athanor
