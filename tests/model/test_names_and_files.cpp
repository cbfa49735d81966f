// SPDX-License-Identifier: Apache-2.0
// Names of any origin are shown, misspelt ones recognised, and files of other kinds refused.
#include "sim/base/errors.hpp"
#include "sim/base/nearest_name.hpp"
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/json_reader.hpp"
#include "tests/support/hostile_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("control characters and bytes that are no UTF-8 are shown as escapes") {
  CHECK(printable("plain, caf\xc3\xa9, \xf0\x9f\x99\x82") ==
        "plain, caf\xc3\xa9, \xf0\x9f\x99\x82");
  CHECK(printable("a\x1b[31m\nb\tc\x7f") == "a\\x1b[31m\\nb\\tc\\x7f");
  CHECK(printable("a\nb", LineEnds::Kept) == "a\nb");
  CHECK(printable("\xff\xfe \xc3") == "\\xff\\xfe \\xc3");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");           // a control character of two bytes
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // half of a pair
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // more bytes than needed
  CHECK(is_utf8("caf\xc3\xa9"));
  CHECK_FALSE(is_utf8("caf\xe9"));
}

TEST_CASE("the nearest name is the one with the fewest edits") {
  const std::vector<std::string> known{"lr", "min-lr", "warmup-steps", "steps", "global-batch"};
  CHECK(nearest_name("warmup_stesp", known) == "warmup-steps");
  CHECK(nearest_name("min_lr", known) == "min-lr");
  CHECK(nearest_name("Steps", known) == "steps");
  CHECK(nearest_name("gloabl-batch", known) == "global-batch");
  CHECK(nearest_name("warmup", known) == "warmup-steps");
  CHECK(nearest_name("steps-of-the-run", known) == "steps");
  CHECK(nearest_name("something-else", known).empty());
  CHECK(nearest_name(std::string(10'000, 'x'), known).empty());
}

TEST_CASE("text is read from regular files alone") {
  const test::TemporaryFolder folder;
  for (const test::HostileFile& file : test::hostile_files(folder, ".txt")) {
    CAPTURE(file.what);
    const bool is_text = file.what == "an empty file" || file.what.starts_with("deep") ||
                         file.what.starts_with("garbage");
    if (is_text) {
      CHECK_NOTHROW(read_text_file(file.path));
    } else {
      CHECK_THROWS_MATCHES(read_text_file(file.path), InputError,
                           MessageMatches(ContainsSubstring(printable(file.path))));
    }
  }
}

TEST_CASE("JSON has limits of nesting and of values") {
  const auto refused = [](const std::string& text, const std::string& says) {
    CHECK_THROWS_MATCHES(parse_json(text, "a.json"), InputError,
                         MessageMatches(ContainsSubstring(says)));
  };
  refused(std::string(100'000, '['), "64 levels");
  refused(std::string(100'000, '{'), "a.json");
  std::string values = "[0";
  for (std::int64_t i = 0; i < 2 * kMaxValues + 2; ++i) values += ",0";
  refused(values + "]", "2000000 values");
  CHECK_NOTHROW(parse_json(std::string(60, '[') + std::string(60, ']'), "a.json"));
}

}  // namespace
}  // namespace athanor
