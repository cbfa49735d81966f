// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/settings/settings_document.hpp"

#include <fmt/format.h>

#include <algorithm>

// toml++ 3.3 asserts, and in release mode assumes, what texts such as "[=" do not hold, and then
// has an error for them all the same. Without NDEBUG and with empty assertions it gets there.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(holds) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace athanor {
namespace {

using Json = nlohmann::json;

class TomlConverter {
 public:
  explicit TomlConverter(SettingsDocument& document) : document_(document) {}

  Json convert(const toml::node& node, const std::string& path, int depth) {
    if (depth > kMaxNesting) {
      throw InputError(document_.file, fmt::format("more than {} levels", kMaxNesting),
                       "Is it the right file?");
    }
    if (const toml::table* table = node.as_table()) return object(*table, path, depth);
    if (const toml::array* array = node.as_array()) {
      Json items = Json::array();
      for (const toml::node& item : *array) items.push_back(convert(item, path, depth + 1));
      return items;
    }
    if (const auto value = node.value_exact<bool>()) return *value;
    if (const auto value = node.value_exact<std::int64_t>()) return *value;
    if (const auto value = node.value_exact<double>()) return *value;
    if (const auto value = node.value_exact<std::string>()) return *value;
    return "a date";  // no setting that is read here is one
  }

 private:
  Json object(const toml::table& table, const std::string& path, int depth) {
    Json object = Json::object();
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      const std::string inner = path.empty() ? name : path + "." + name;
      object[name] = convert(value, inner, depth + 1);
      document_.lines.emplace(inner, static_cast<int>(key.source().begin.line));
    }
    return object;
  }

  SettingsDocument& document_;
};

/// Returns the text with a question mark for each byte of other characters than ASCII. Keys have
/// none, and no value that is read here does. toml++ 3.3 goes astray where they stand outside of
/// strings and comments.
std::string ascii_of(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::string ascii(text);
  std::ranges::replace_if(ascii, [](char c) { return static_cast<unsigned char>(c) > 0x7F; }, '?');
  return ascii;
}

}  // namespace

SettingsDocument parse_toml_settings(std::string_view text, const std::string& file) {
  SettingsDocument document{file, nullptr, {}};
  try {
    document.root = TomlConverter(document).convert(toml::parse(ascii_of(text)), "", 0);
  } catch (const toml::parse_error& error) {
    throw InputError(
        file,
        fmt::format("not valid TOML: line {}: {}", error.source().begin.line, error.description()),
        "Was the file cut short or edited by hand?");
  }
  return document;
}

}  // namespace athanor
