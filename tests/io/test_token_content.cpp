// SPDX-License-Identifier: Apache-2.0
// `--data` is what its content is: what cannot be a model's tokens is refused with the way out.
#include "executor/data/token_files.hpp"
#include "executor/data/tokens.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/token_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

namespace athanor {
namespace {

using namespace std::string_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

constexpr std::int64_t kVocabulary = 50257;

std::vector<std::uint16_t> some_tokens(std::size_t count) {
  std::vector<std::uint16_t> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::uint16_t>(i * 7919 % 50257));
  }
  return tokens;
}

TEST_CASE("files that are no tokens of the vocabulary are refused") {
  struct Case {
    std::string name, content, says;
  };
  const std::string text(200, 'x');
  const auto words = some_tokens(500);
  const std::string wide = test::tokens_of(std::vector<std::uint32_t>(words.begin(), words.end()));
  const std::string header = test::llmc_file<std::uint16_t>(12345, 1, words);
  const std::vector<Case> cases{
      {"chat.jsonl",
       R"({"messages": [{"role": "user", "content": "hi"}]})"
       "\n",
       "athanor tokenize"},
      {"data.txt", text, "athanor tokenize"},
      {"data", text, "vocabulary of 50257"},
      {"text.bin", text, "is text"},
      {"data.jsonl.gz", "\x1f\x8b\x08" + text, "gzip"},
      {"data.zst", "\x28\xb5\x2f\xfd" + text, "zstd"},
      {"data.parquet", "PAR1" + text, "parquet"},
      {"data.arrow", "ARROW1" + text, "Arrow"},
      {"tokens.npy", "\x93NUMPY\x01" + text, "numpy.load"},
      {"tokens.bin", "\x93NUMPY\x01" + text, "numpy.load"},
      {"tokens.npz", "PK\x03\x04" + text, "zip archive"},
      {"tokens.pt", "PK\x03\x04" + text, "zip archive"},
      {"tokens.pkl", "\x80\x04\x95" + text, "pickle"},
      {"wide.bin", wide, "--tokens-dtype uint32"},
      {"long.bin", test::tokens_of(std::vector<std::uint64_t>(words.begin(), words.end())),
       "ids of 64 bits"},
      {"zeros.bin", std::string(4096, '\0'), "--tokens-dtype uint32"},
      {"header.bin", header, "12345 is no known magic"},
      {"pointer.bin", "version https://git-lfs.github.com/spec/v1\n" + text, "git lfs pull"},
      {"page.bin", "<!DOCTYPE html><html>" + text, "web page"},
  };
  const Folder folder;
  for (const Case& each : cases) {
    const std::string path = folder.write(each.name, each.content);
    CAPTURE(path);
    CHECK_THROWS_MATCHES(TokenDataset(path, TokenFormat::Auto, kVocabulary), InputError,
                         MessageMatches(ContainsSubstring(each.says) && ContainsSubstring(path)));
    CHECK_NOTHROW(TokenDataset(path, TokenFormat::UInt8, kVocabulary));
  }
  CHECK(TokenDataset(folder / "wide.bin", TokenFormat::UInt32, kVocabulary).num_tokens() == 500);
  const auto refused = [&](const char* name, TokenFormat format, const char* says) {
    CHECK_THROWS_MATCHES(TokenDataset(folder / name, format, kVocabulary), InputError,
                         MessageMatches(ContainsSubstring(says)));
  };
  refused("wide.bin", TokenFormat::UInt16, "ids of 32 bits");
  refused("long.bin", TokenFormat::UInt16, "ids of 64 bits");
  refused("long.bin", TokenFormat::UInt32, "ids of 64 bits");
  CHECK_NOTHROW(TokenDataset(folder / "zeros.bin", TokenFormat::UInt16, kVocabulary));
  CHECK_NOTHROW(TokenDataset(folder / "zeros.bin", TokenFormat::UInt32, kVocabulary));
}

TEST_CASE("tokens and bytes are taken where they fit the vocabulary") {
  const Folder folder;
  const auto words = some_tokens(500);
  const std::string binary = folder.write("tokens.bin", test::tokens_of(words));
  CHECK(TokenDataset(binary, TokenFormat::Auto, kVocabulary).num_tokens() == 500);
  const std::string text = folder.write("chat.jsonl", R"({"text": "any"})");
  CHECK(TokenDataset(text, TokenFormat::Auto, 256).num_tokens() == 15);
  CHECK(TokenDataset(text, TokenFormat::Auto, 300).num_tokens() == 15);
  const std::string zeros = folder.write("zeros.txt", "abc\0def"s);
  CHECK_THROWS_AS(TokenDataset(zeros, TokenFormat::Auto, 256), InputError);
}

TEST_CASE("several files are one stream in their order") {
  const Folder folder;
  for (const char* name : {"part_10.bin", "part_9.bin", "part_2.bin"}) {
    folder.write(name, test::llmc_file<std::uint16_t>(
                           20240520, 1, {static_cast<std::uint16_t>(name[5] - '0'), 7}));
  }
  folder.write("part_11.bin", test::llmc_file<std::uint16_t>(20240520, 1, {}));
  const std::vector<std::string> files = expand_data({folder / "part_*.bin"});
  CHECK(files == std::vector{folder / "part_2.bin", folder / "part_9.bin", folder / "part_10.bin",
                             folder / "part_11.bin"});
  const TokenDataset data(files, TokenFormat::Auto, 10);
  CHECK(data.num_tokens() == 6);
  std::vector<std::int64_t> tokens(6);
  data.read(0, tokens);
  CHECK(tokens == std::vector<std::int64_t>{2, 7, 9, 7, 1, 7});
  std::vector<std::int64_t> middle(3);
  data.read(1, middle);
  CHECK(middle == std::vector<std::int64_t>{7, 9, 7});
  CHECK_THROWS_AS(data.read(4, middle), Error);
  CHECK_THROWS_MATCHES(TokenDataset(files, TokenFormat::Auto, 9).check_all(), InputError,
                       MessageMatches(ContainsSubstring("part_9.bin: token 9 at position 0")));
}

TEST_CASE("names and patterns stand for files as given") {
  const Folder folder;
  folder.write("a.bin", "");
  folder.write("a.idx", "");
  folder.write("odd[1].bin", "");
  CHECK(expand_data({folder / "a.*"}) == std::vector{folder / "a.bin"});
  CHECK(expand_data({folder / "odd[1].bin"}) == std::vector{folder / "odd[1].bin"});
  CHECK(expand_data({folder / "none", folder / "a.bin"}) ==
        std::vector{folder / "none", folder / "a.bin"});
  CHECK_THROWS_MATCHES(expand_data({folder / "*.txt"}), InputError,
                       MessageMatches(ContainsSubstring("matches no file")));
}

}  // namespace
}  // namespace athanor
