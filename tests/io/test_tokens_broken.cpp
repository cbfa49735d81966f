// SPDX-License-Identifier: Apache-2.0
// Broken token files are refused with the file and the problem.
#include "executor/data/tokens.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/token_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

void check_refused(const std::string& path, TokenFormat format, const std::string& message) {
  CAPTURE(path);
  CHECK_THROWS_MATCHES(TokenDataset(path, format, 256).check_all(), InputError,
                       MessageMatches(ContainsSubstring(message)));
}

TEST_CASE("an id outside the vocabulary is refused with its position") {
  const Folder folder;
  const std::string ids(70'000, 'a');
  const TokenDataset data(folder.write("a.txt", ids + "\xff" + ids), TokenFormat::Auto, 255);
  CHECK_THROWS_MATCHES(data.check_all(), InputError,
                       MessageMatches(ContainsSubstring("token 255 at position 70000")));
  const std::string negative = folder.write("n.bin", test::tokens_of<std::int32_t>({1, -1}));
  folder.write("n.idx", test::megatron_index(4, {2}, {0}));
  check_refused(negative, TokenFormat::Auto, "token -1 at position 1");
}

TEST_CASE("reading outside the file is an error") {
  const Folder folder;
  const TokenDataset data(folder.write("a.txt", "abc"), TokenFormat::Auto, 256);
  std::vector<std::int64_t> out(2);
  CHECK_THROWS_AS(data.read(2, out), Error);
  CHECK_THROWS_AS(data.read(-1, out), Error);
  CHECK_THROWS_AS(data.read(INT64_MAX, out), Error);
}

TEST_CASE("broken llm.c files are refused") {
  const Folder folder;
  const std::string good = test::llmc_file<std::uint16_t>(20240520, 1, {1, 2, 3});
  const auto refused = [&](const std::string& content, const std::string& message) {
    check_refused(folder.write("a.bin", content), TokenFormat::Auto, message);
  };
  refused(test::llmc_file<std::uint16_t>(20240520, 2, {1}), "version 2");
  refused(good.substr(0, good.size() - 1), "tells of 3 tokens");
  refused(good + "x", "tells of 3 tokens");
  refused(good.substr(0, 20), "tells of 3 tokens");
  std::string count = good;
  count.replace(8, 4, test::raw(std::int32_t{-3}));
  refused(count, "tells of -3 tokens");
}

TEST_CASE("raw files that are no whole number of tokens are refused") {
  const Folder folder;
  check_refused(folder.write("a.bin", "abc"), TokenFormat::Auto, "2-byte tokens");
  check_refused(folder / "a.bin", TokenFormat::UInt32, "4-byte tokens");
  CHECK_THROWS_AS(TokenDataset(folder.write("e", ""), TokenFormat::Auto, 256).num_windows(1),
                  InputError);
  check_refused(folder / "missing", TokenFormat::Auto, "missing");
  check_refused(folder / ".", TokenFormat::Auto, "it is a folder");
}

TEST_CASE("broken Megatron pairs are refused") {
  const Folder folder;
  folder.write("a.bin", test::tokens_of<std::uint16_t>({1, 2, 3}));
  const std::string good = test::megatron_index(8, {1, 2}, {0, 2});
  const auto refused = [&](const std::string& index, const std::string& message) {
    check_refused(folder.write("a.idx", index), TokenFormat::Auto, message);
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    refused(good.substr(0, size), "a.idx");
  }
  refused("X" + good.substr(1), "no Megatron index");
  refused(test::megatron_index(8, {1, 2}, {0, 2}, 2), "version 2");
  refused(test::megatron_index(7, {1, 2}, {0, 2}), "type code 7");
  refused(test::megatron_index(8, {1, 2}, {0, 4}), "expected at byte 2");
  refused(test::megatron_index(8, {-1, 4}, {0, -2}), "sequence 0 of -1 tokens");
  refused(test::megatron_index(8, {1, 1}, {0, 2}), "the .bin has 6");
  std::string huge = good;
  huge.replace(18, 8, test::raw(~std::uint64_t{0}));
  refused(huge, "do not hold");
  folder.write("b.idx", good);
  check_refused(folder / "b.idx", TokenFormat::Auto, "b.bin");
}

TEST_CASE("an unknown token type is refused") {
  CHECK(parse_token_format("uint32", "--tokens-dtype") == TokenFormat::UInt32);
  CHECK_THROWS_AS(parse_token_format("float", "--tokens-dtype"), InputError);
}

}  // namespace
}  // namespace athanor
