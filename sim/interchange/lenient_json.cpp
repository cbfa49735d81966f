// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/lenient_json.hpp"

#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <system_error>

namespace athanor {
namespace {

constexpr std::size_t kMaxString = 16 << 20;
constexpr std::size_t kMaxSpace = 1 << 20;
constexpr int kEnd = -1;

bool is_space(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Bytes of a stream with a view ahead.
class Window {
 public:
  explicit Window(std::istream& in) : in_(in) {}

  /// Returns the byte `ahead` of the next one; kEnd after the last.
  int peek(std::size_t ahead = 0) {
    if (at_ + ahead >= text_.size() && !refill(ahead)) return kEnd;
    return static_cast<unsigned char>(text_[at_ + ahead]);
  }
  void skip(std::size_t count = 1) { at_ += count; }
  [[nodiscard]] std::size_t position() const noexcept { return before_ + at_; }

 private:
  bool refill(std::size_t ahead) {
    constexpr std::size_t kBlock = 1 << 16;
    text_.erase(0, at_);
    before_ += at_;
    at_ = 0;
    while (text_.size() <= ahead) {
      const std::size_t old = text_.size();
      text_.resize(old + kBlock);
      const std::streamsize count = in_.rdbuf()->sgetn(text_.data() + old, kBlock);
      text_.resize(old + static_cast<std::size_t>(count));
      if (count == 0) return false;
    }
    return true;
  }

  std::istream& in_;
  std::string text_;
  std::size_t at_ = 0, before_ = 0;
};

class Parser {
 public:
  Parser(std::istream& in, const ValuePath& place, nlohmann::json_sax<nlohmann::json>& sax)
      : window_(in), place_(place), sax_(sax) {}

  void run() {
    skip_byte_order_mark();
    value();
    while (!open_.empty()) next_in_container();
    skip_space();
    if (window_.peek() != kEnd) fail("more text after the end");
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    place_.reject(fmt::format("not valid JSON at byte {}: {}", window_.position(), why),
                  "Was the trace cut short?");
  }

  void skip_byte_order_mark() {
    if (window_.peek() == 0xEF && window_.peek(1) == 0xBB && window_.peek(2) == 0xBF) {
      window_.skip(3);
    }
  }

  void skip_space() {
    for (std::size_t count = 0; is_space(window_.peek()); ++count) {
      if (count > kMaxSpace) fail("nothing but spaces");
      window_.skip();
    }
  }

  /// Reads what follows a value, or the start of a container: a comma, a bracket or a value.
  void next_in_container() {
    skip_space();
    const char bracket = open_.back() == '{' ? '}' : ']';
    if (!is_first_ && window_.peek() == ',') {
      window_.skip();
      skip_space();
    } else if (!is_first_ && window_.peek() != bracket) {
      fail(window_.peek() == kEnd ? "the text ends" : "a comma is missing");
    }
    if (window_.peek() == bracket) return close();
    is_first_ = false;
    if (open_.back() == '{') key();
    value();
  }

  void open(char bracket) {
    window_.skip();
    if (open_.size() >= static_cast<std::size_t>(kMaxNesting)) {
      fail(fmt::format("more than {} levels of brackets", kMaxNesting));
    }
    open_ += bracket;
    is_first_ = true;
    if (bracket == '{') {
      sax_.start_object(0);
    } else {
      sax_.start_array(0);
    }
  }

  void close() {
    window_.skip();
    const bool object = open_.back() == '{';
    open_.pop_back();
    is_first_ = false;
    if (object) {
      sax_.end_object();
    } else {
      sax_.end_array();
    }
  }

  void key() {
    if (window_.peek() != '"') fail("a key is missing");
    read_string(/*is_key=*/true);
    skip_space();
    if (window_.peek() != ':') fail("a colon is missing");
    window_.skip();
    sax_.key(string_);
  }

  void value() {
    skip_space();
    const int c = window_.peek();
    if (c == '{' || c == '[') {
      open(static_cast<char>(c));
    } else if (c == '"') {
      read_string(/*is_key=*/false);
      sax_.string(string_);
    } else {
      word();
    }
  }

  /// Reads a number or a name such as true or NaN.
  void word() {
    constexpr std::size_t kLongest = 400;
    std::string text;
    for (int c = window_.peek(); c != kEnd && c != ',' && c != '}' && c != ']' && !is_space(c);
         c = window_.peek()) {
      text += static_cast<char>(c);
      window_.skip();
      if (text.size() > kLongest) break;
    }
    if (text.empty()) fail(window_.peek() == kEnd ? "the text ends" : "a value is missing");
    if (text == "true" || text == "false") {
      sax_.boolean(text == "true");
    } else if (text == "null" || is_not_finite(text)) {
      sax_.null();
    } else {
      number(text);
    }
  }

  static bool is_not_finite(std::string_view text) {
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    return text == "NaN" || text == "nan" || text == "Infinity" || text == "inf" || text == "Inf";
  }

  void number(const std::string& text) {
    const char* const end = text.data() + text.size();
    std::int64_t whole = 0;
    if (parses(std::from_chars(text.data(), end, whole), end)) {
      sax_.number_integer(whole);
      return;
    }
    std::uint64_t large = 0;
    if (parses(std::from_chars(text.data(), end, large), end)) {
      sax_.number_unsigned(large);
      return;
    }
    double real = 0;
    if (!parses(std::from_chars(text.data(), end, real), end)) fail("no value");
    sax_.number_float(real, text);
  }

  static bool parses(const std::from_chars_result& result, const char* end) {
    return result.ec == std::errc{} && result.ptr == end;
  }

  void read_string(bool is_key) {
    string_.clear();
    window_.skip();
    while (true) {
      const int c = window_.peek();
      if (c == kEnd) fail("the text ends within a string");
      if (string_.size() >= kMaxString) fail("a string without an end");
      if (c == '"' && ends_string(is_key)) break;
      window_.skip();
      if (c == '\\') {
        escape();
      } else {
        string_ += static_cast<char>(c);
      }
    }
    window_.skip();
  }

  void escape() {
    const int c = window_.peek();
    if (c == kEnd) fail("the text ends within a string");
    window_.skip();
    constexpr std::string_view kNames = "bfnrt", kMeanings = "\b\f\n\r\t";
    const auto name = kNames.find(static_cast<char>(c));
    if (c == 'u' && hex_digits() == 4) {
      unicode();
    } else if (name != std::string_view::npos) {
      string_ += kMeanings[name];
    } else {
      // Paths of Windows have backslashes that are no escapes.
      if (c != '"' && c != '\\' && c != '/') string_ += '\\';
      string_ += static_cast<char>(c);
    }
  }

  int hex_digits() {
    int count = 0;
    while (count < 4 && std::isxdigit(window_.peek(static_cast<std::size_t>(count))) != 0) ++count;
    return count;
  }

  void unicode() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      const auto digit = static_cast<char>(window_.peek());
      unsigned value = 0;
      std::from_chars(&digit, &digit + 1, value, 16);
      code = code * 16 + value;
      window_.skip();
    }
    append_utf8(code);
  }

  /// Appends a character. The two halves of a pair become two replacement characters: no name that
  /// is used has any.
  void append_utf8(unsigned code) {
    if (code < 0x80) {
      string_ += static_cast<char>(code);
    } else if (code < 0x800) {
      string_ += static_cast<char>(0xC0U | (code >> 6U));
      string_ += static_cast<char>(0x80U | (code & 0x3FU));
    } else if (code >= 0xD800 && code < 0xE000) {
      string_ += "\xEF\xBF\xBD";
    } else {
      string_ += static_cast<char>(0xE0U | (code >> 12U));
      string_ += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
      string_ += static_cast<char>(0x80U | (code & 0x3FU));
    }
  }

  std::size_t after_space(std::size_t ahead) {
    constexpr std::size_t kFar = 4096;
    while (ahead < kFar && is_space(window_.peek(ahead))) ++ahead;
    return ahead;
  }

  /// Whether the quote that is next ends the string: whether JSON goes on after it.
  bool ends_string(bool is_key) {
    const std::size_t ahead = after_space(1);
    if (is_key) return window_.peek(ahead) == ':';
    return follows(ahead, open_.size());
  }

  /// Whether the bytes from `ahead` on can follow a value at that depth.
  bool follows(std::size_t ahead, std::size_t depth) {
    const int c = window_.peek(ahead);
    if (depth == 0 || c == kEnd) return c == kEnd;
    const bool object = open_[depth - 1] == '{';
    if (c == (object ? '}' : ']')) {
      // Two brackets on are enough: text that happens to look so far like JSON is not known.
      const std::size_t next = after_space(ahead + 1);
      return can_go_on(window_.peek(next), depth - 1);
    }
    if (c != ',') return false;
    const std::size_t next = after_space(ahead + 1);
    return object ? is_key_at(next) || window_.peek(next) == '}' : starts_value(window_.peek(next));
  }

  [[nodiscard]] bool can_go_on(int c, std::size_t depth) const {
    if (depth == 0 || c == kEnd) return c == kEnd;
    return c == ',' || c == (open_[depth - 1] == '{' ? '}' : ']');
  }

  static bool starts_value(int c) {
    return c == '"' || c == '{' || c == '[' || c == ']' || c == '-' || (c >= '0' && c <= '9') ||
           c == 't' || c == 'f' || c == 'n' || c == 'N' || c == 'I';
  }

  bool is_key_at(std::size_t ahead) {
    constexpr std::size_t kLongestKey = 200;
    if (window_.peek(ahead) != '"') return false;
    for (std::size_t i = ahead + 1; i < ahead + kLongestKey; ++i) {
      const int c = window_.peek(i);
      if (c == kEnd || c == '\n') return false;
      if (c == '"') return window_.peek(after_space(i + 1)) == ':';
    }
    return false;
  }

  Window window_;
  const ValuePath& place_;
  nlohmann::json_sax<nlohmann::json>& sax_;
  std::string open_;  ///< brackets of the open containers, the outermost first
  bool is_first_ = false;
  std::string string_;
};

}  // namespace

void parse_lenient_json(std::istream& in, const ValuePath& place,
                        nlohmann::json_sax<nlohmann::json>& sax) {
  Parser(in, place, sax).run();
}

}  // namespace athanor
