// SPDX-License-Identifier: Apache-2.0
#include "executor/data/tokens.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/temporary_files.hpp"
#include "tests/io/token_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

constexpr std::int64_t kVocabulary = 1 << 20;

std::vector<std::int64_t> all(const TokenDataset& data) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(data.num_tokens()));
  data.read(0, tokens);
  return tokens;
}

TEST_CASE("text is read as bytes") {
  const Folder folder;
  const TokenDataset data(folder.write("a.txt", "h\xc3\xa9!"), TokenFormat::Auto, 256);
  CHECK(all(data) == std::vector<std::int64_t>{'h', 0xC3, 0xA9, '!'});
}

TEST_CASE("llm.c files are known by their magic") {
  const Folder folder;
  const auto name = GENERATE(as<std::string>{}, "gpt2.bin", "no_extension");
  const TokenDataset narrow(
      folder.write(name, test::llmc_file<std::uint16_t>(20240520, 1, {1, 50256, 65535})),
      TokenFormat::Auto, kVocabulary);
  CHECK(all(narrow) == std::vector<std::int64_t>{1, 50256, 65535});
  const TokenDataset wide(
      folder.write(name, test::llmc_file<std::uint32_t>(20240801, 7, {128000, 2})),
      TokenFormat::Auto, kVocabulary);
  CHECK(all(wide) == std::vector<std::int64_t>{128000, 2});
}

TEST_CASE("a .bin without a header is nanoGPT's uint16, and a type can be named") {
  const Folder folder;
  const std::string path = folder.write("a.bin", test::raw(std::uint32_t{0x00020001}));
  CHECK(all(TokenDataset(path, TokenFormat::Auto, kVocabulary)) == std::vector<std::int64_t>{1, 2});
  CHECK(all(TokenDataset(path, TokenFormat::UInt16, kVocabulary)).size() == 2);
  CHECK(all(TokenDataset(path, TokenFormat::UInt32, kVocabulary)) ==
        std::vector<std::int64_t>{0x20001});
  CHECK(all(TokenDataset(path, TokenFormat::UInt8, 256)).size() == 4);
}

TEST_CASE("a header or an index counts where a type is named, too, and has to agree with it") {
  const Folder folder;
  const std::string llmc =
      folder.write("a.bin", test::llmc_file<std::uint16_t>(20240520, 1, {1, 50256}));
  CHECK(all(TokenDataset(llmc, TokenFormat::UInt16, kVocabulary)) ==
        std::vector<std::int64_t>{1, 50256});
  CHECK(TokenDataset(llmc, TokenFormat::UInt8, 256).num_tokens() == 1028);
  folder.write("b.bin", test::tokens_of<std::uint16_t>({1, 2, 3}));
  folder.write("b.idx", test::megatron_index(8, {1, 2}, {0, 2}));
  CHECK(all(TokenDataset(folder / "b.bin", TokenFormat::UInt16, kVocabulary)).size() == 3);
  for (const char* name : {"a.bin", "b.bin"}) {
    CHECK_THROWS_MATCHES(
        TokenDataset(folder / name, TokenFormat::UInt32, kVocabulary), InputError,
        MessageMatches(ContainsSubstring("has 2 bytes, and --tokens-dtype names another type")));
  }
  folder.write("b.idx", "an index of something else");
  CHECK(all(TokenDataset(folder / "b.bin", TokenFormat::UInt16, kVocabulary)).size() == 3);
}

TEST_CASE("a Megatron pair is found from either file and from the name without extension") {
  const Folder folder;
  const auto name = GENERATE(as<std::string>{}, "text.idx", "text.bin", "text");
  folder.write("text.idx", test::megatron_index(4, {2, 3}, {0, 8}));
  folder.write("text.bin", test::tokens_of<std::int32_t>({7, 8, 70000, 1, 0}));
  const TokenDataset data(folder / name, TokenFormat::Auto, kVocabulary);
  CHECK(all(data) == std::vector<std::int64_t>{7, 8, 70000, 1, 0});
}

TEST_CASE("samples are consecutive windows and start again after the last") {
  const Folder folder;
  const TokenDataset data(folder.write("a.txt", "0123456789A"), TokenFormat::Auto, 256);
  CHECK(data.num_windows(3) == 3);  // 0..2, 3..5, 6..8; the last target is token 9
  std::vector<std::int64_t> inputs(3);
  std::vector<std::int64_t> targets(3);
  data.read_sample(2, inputs, targets);
  CHECK(inputs == std::vector<std::int64_t>{'6', '7', '8'});
  CHECK(targets == std::vector<std::int64_t>{'7', '8', '9'});
  CHECK(data.sample_start(3, 3) == 0);
  CHECK(data.sample_start(3'000'000'001, 3) == 3);
  CHECK(data.num_windows(10) == 1);
  CHECK_THROWS_AS(data.num_windows(11), InputError);
}

TEST_CASE("every token of the used windows is an input once per pass") {
  const Folder folder;
  const TokenDataset data(folder.write("a.txt", std::string(101, 'x')), TokenFormat::Auto, 256);
  std::vector<int> uses(101);
  const std::int64_t windows = data.num_windows(7);
  for (std::int64_t i = 0; i < 2 * windows; ++i) {
    for (std::int64_t j = 0; j < 7; ++j) {
      ++uses[static_cast<std::size_t>(data.sample_start(i, 7) + j)];
    }
  }
  const auto used = static_cast<std::ptrdiff_t>(windows * 7);
  CHECK(std::all_of(uses.begin(), uses.begin() + used, [](int n) { return n == 2; }));
  CHECK(std::accumulate(uses.begin() + used, uses.end(), 0) == 0);
}

}  // namespace
}  // namespace athanor
