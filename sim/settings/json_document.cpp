// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/settings/settings_document.hpp"

#include <algorithm>
#include <vector>

namespace athanor {
namespace {

/// Finds the line of every key of a text that was parsed as JSON.
class KeyLines {
 public:
  /// The parser ends at a zero byte, whatever follows.
  explicit KeyLines(std::string_view text) : text_(text.substr(0, text.find('\0'))) {}

  std::map<std::string, int> find() {
    for (at_ = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '{' || c == '[') open_.push_back({c == '{', ""});
      if (c == '}' || c == ']') open_.pop_back();
      if (c == '"') pass_string();
    }
    return std::move(lines_);
  }

 private:
  struct Level {
    bool is_object;
    std::string key;
  };

  void pass_string() {
    const std::size_t begin = ++at_;
    while (text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    const std::size_t after = text_.find_first_not_of(" \t\r\n", at_ + 1);
    if (after == std::string_view::npos || text_[after] != ':') return;
    open_.back().key = text_.substr(begin, at_ - begin);
    if (std::ranges::all_of(open_, &Level::is_object)) lines_[path()] = line_;
  }

  [[nodiscard]] std::string path() const {
    std::string path;
    for (const Level& level : open_) path += (path.empty() ? "" : ".") + level.key;
    return path;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Level> open_;
  std::map<std::string, int> lines_;
};

}  // namespace

SettingsDocument parse_json_settings(std::string_view text, const std::string& file) {
  SettingsDocument document{file, parse_json(text, file), {}};
  if (!document.root.is_object()) {
    throw InputError(file, "holds no settings: it is not an object in braces",
                     "Is it the right file?");
  }
  document.lines = KeyLines(text).find();
  return document;
}

}  // namespace athanor
