// SPDX-License-Identifier: Apache-2.0
// Several files, patterns and folders as training data.
#include "executor/io/training_data.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/packed_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

std::string window_at(const TokenFiles& files, std::int64_t index) {
  std::vector<std::int64_t> inputs(3);
  std::vector<std::int64_t> targets(3);
  files.read_sample(index, inputs, targets);
  std::string text;
  for (const std::int64_t id : inputs) text += static_cast<char>(id);
  return text;
}

void check_refused(const std::vector<std::string>& paths, const std::string& message) {
  CHECK_THROWS_MATCHES(open_training_data(paths, TokenFormat::UInt8, 256, 5), InputError,
                       MessageMatches(ContainsSubstring(message)));
}

TEST_CASE("files are read one after the other, and no window spans two") {
  const Folder folder;
  const std::string first = folder.write("b.txt", "01234567");
  const std::string second = folder.write("a.txt", "abcdx");
  const TrainingData data = open_training_data({first, second}, TokenFormat::UInt8, 256, 3);
  const TokenFiles& files = std::get<TokenFiles>(data);
  CHECK(files.num_samples() == 3);
  CHECK(files.num_tokens() == 13);
  CHECK(window_at(files, 0) == "012");
  CHECK(window_at(files, 1) == "345");
  CHECK(window_at(files, 2) == "abc");
  CHECK(window_at(files, 3) == "012");
  CHECK_THAT(describe(data), ContainsSubstring("2 files") && ContainsSubstring("13 tokens"));
}

TEST_CASE("one file alone is read as it always was") {
  const Folder folder;
  const std::string path = folder.write("a.txt", "0123456789A");
  const TokenDataset alone(path, TokenFormat::UInt8, 256);
  const TrainingData data = open_training_data({path}, TokenFormat::UInt8, 256, 3);
  std::vector<std::int64_t> inputs(3);
  std::vector<std::int64_t> targets(3);
  for (std::int64_t i = 0; i < 7; ++i) {
    alone.read_sample(i, inputs, targets);
    CHECK(window_at(std::get<TokenFiles>(data), i) == std::string(inputs.begin(), inputs.end()));
  }
}

TEST_CASE("a pattern stands for its files in order, and a Megatron pair counts once") {
  const Folder folder;
  for (const char* name : {"s_2.bin", "s_1.bin", "s_1.idx", "s_10.bin", "other"}) {
    folder.write(name, "");
  }
  const std::vector<std::string> expected{folder / "s_1.bin", folder / "s_10.bin",
                                          folder / "s_2.bin"};
  CHECK(expand_patterns({folder / "s_*"}) == expected);
  const std::string literal = folder.write("s_[1].bin", "");
  CHECK(expand_patterns({literal}) == std::vector<std::string>{literal});
  CHECK_THROWS_AS(expand_patterns({folder / "t_*"}), InputError);
}

TEST_CASE("a folder of packed tokens must suit the plan, and stands alone") {
  const Folder folder;
  check_refused({folder / ""}, "athanor tokenize");
  test::write_packed(folder, {test::two_sequences()});
  const TrainingData data = open_training_data({folder / ""}, TokenFormat::Auto, 10, 5);
  CHECK(std::get<PackedDataset>(data).num_samples() == 2);
  CHECK_THAT(describe(data), ContainsSubstring("3 documents, 4 of them learnt"));
  CHECK_THROWS_MATCHES(open_training_data({folder / ""}, TokenFormat::Auto, 10, 4), InputError,
                       MessageMatches(ContainsSubstring("--seq 4")));
  check_refused({folder.write("a.txt", "0123456"), folder / ""}, "a folder among token files");
}

}  // namespace
}  // namespace athanor
