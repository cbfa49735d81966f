// SPDX-License-Identifier: Apache-2.0
// Several files, patterns and folders as training data.
#include "executor/data/training_data.hpp"
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

void check_refused(const std::vector<std::string>& paths, const std::string& message) {
  CHECK_THROWS_MATCHES(open_training_data(paths, TokenFormat::UInt8, 256, 5), InputError,
                       MessageMatches(ContainsSubstring(message)));
}

TEST_CASE("several token files are one stream, and a pattern stands for its files") {
  const Folder folder;
  folder.write("s_2.txt", "abcdx");
  folder.write("s_10.txt", "A");
  folder.write("s_1.txt", "01234567");
  const TrainingData data = open_training_data({folder / "s_*"}, TokenFormat::UInt8, 256, 3);
  CHECK(num_samples(data, 3) == 4);
  std::vector<std::int64_t> inputs(3), targets(3);
  std::get<TokenDataset>(data).read_sample(2, inputs, targets);
  CHECK(std::string(inputs.begin(), inputs.end()) == "67a");
  CHECK(std::string(targets.begin(), targets.end()) == "7ab");
  CHECK_THAT(describe(data), ContainsSubstring("2 more") && ContainsSubstring("14 tokens"));
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
