// SPDX-License-Identifier: Apache-2.0
// Packed tokens as training reads them, and broken folders, which are refused with their place.
#include "executor/data/packed_dataset.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/packed_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;
using test::PackedRows;
using Numbers = std::vector<std::int64_t>;

struct Sample {
  std::array<std::int64_t, 5> inputs{}, targets{}, positions{};
  std::array<bool, 5> ignored{};
  Numbers starts;
};

Sample read(const PackedDataset& data, std::int64_t index) {
  Sample sample;
  sample.starts =
      data.read_sample(index, {sample.inputs, sample.targets, sample.ignored, sample.positions});
  return sample;
}

template <typename Value>
void double_up(std::vector<Value>& values) {
  const std::vector<Value> again = values;
  values.insert(values.end(), again.begin(), again.end());
}

void check_refused(const Folder& folder, const std::string& message) {
  CHECK_THROWS_MATCHES(PackedDataset(folder / "", 10).check_all(), InputError,
                       MessageMatches(ContainsSubstring(message)));
}

TEST_CASE("a sample has inputs, the targets that are learnt, and positions that start again") {
  const Folder folder;
  test::write_packed(folder, {test::two_sequences()});
  const PackedDataset data(folder / "", 10);
  data.check_all();
  const Sample sample = read(data, 0);
  CHECK(sample.inputs == std::array<std::int64_t, 5>{1, 2, 3, 4, 5});
  CHECK(sample.targets == std::array<std::int64_t, 5>{2, 3, 4, 5, 0});
  CHECK(sample.ignored == std::array<bool, 5>{true, false, true, false, true});
  CHECK(sample.positions == std::array<std::int64_t, 5>{0, 1, 2, 0, 1});
  CHECK(sample.starts == Numbers{0, 3});
}

TEST_CASE("learnt targets are counted over shards and over the end") {
  const Folder folder;
  PackedRows all = test::two_sequences();
  all.loss_mask = {0, 1, 1, 0, 1, 0, 1, 1, 1, 1};
  test::write_packed(folder, {test::two_sequences(), all});
  const PackedDataset data(folder / "", 10);
  data.check_all();
  CHECK(data.num_samples() == 4);
  CHECK(data.num_targets(0, 4) == 2 + 2 + 3 + 4);
  CHECK(data.num_targets(4, 4) == data.num_targets(0, 4));
  CHECK(read(data, 2).inputs == read(data, 0).inputs);
  CHECK(read(data, 2).ignored != read(data, 0).ignored);
}

TEST_CASE("every pass has each sequence once, in an order of its own") {
  const Folder folder;
  PackedRows rows = test::two_sequences();
  for (int i = 0; i < 5; ++i) {  // 64 sequences: the largest number without a walk
    double_up(rows.ids);
    double_up(rows.loss_mask);
    double_up(rows.document_starts);
  }
  test::write_packed(folder, {rows, test::two_sequences()});
  const PackedDataset data(folder / "", 10);
  Numbers in_order(static_cast<std::size_t>(data.num_samples()));
  std::iota(in_order.begin(), in_order.end(), 0);
  std::set<Numbers> orders;
  for (std::int64_t pass = 0; pass < 5; ++pass) {
    Numbers order;
    for (std::int64_t i = 0; i < data.num_samples(); ++i) {
      order.push_back(data.sequence_of(pass * data.num_samples() + i));
    }
    if (pass == 0) CHECK(order == in_order);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    CHECK(order == in_order);
  }
  CHECK(orders.size() == 5);
}

TEST_CASE("values that training could not use are refused by shard and sequence") {
  const auto broken = [](const std::function<void(PackedRows&)>& spoil,
                         const std::string& message) {
    const Folder folder;
    PackedRows rows = test::two_sequences();
    spoil(rows);
    test::write_packed(folder, {rows});
    check_refused(folder, message);
  };
  broken([](PackedRows& r) { r.ids[7] = 10; }, "sequence 1: token 10 at 2 is outside");
  broken([](PackedRows& r) { r.ids[0] = -1; }, "sequence 0: token -1");
  broken([](PackedRows& r) { r.document_starts[5] = 0; }, "sequence 1: does not start");
  broken([](PackedRows& r) { r.loss_mask[2] = 2; }, "neither 0 nor 1");
  broken([](PackedRows& r) { r.loss_mask[3] = 1; }, "would be learnt");
  broken([](PackedRows& r) { r.loss_mask[6] = r.loss_mask[7] = 0; }, "has no token that is learnt");
}

TEST_CASE("an index that is not its shards' is refused") {
  const auto changed = [](const std::string& from, const std::string& to,
                          const std::string& message) {
    const Folder folder;
    test::write_packed(folder, {test::two_sequences()});
    std::string text = test::read_bytes(folder / "index.json");
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    folder.write("index.json", text.replace(at, from.size(), to));
    CAPTURE(to);
    check_refused(folder, message);
  };
  changed("tokens/1", "tokens/9", "athanor tokenize");
  changed("\"vocab_size\": 10", "\"vocab_size\": 11", "this model has 10");
  changed("\"sequence_length\": 5", "\"sequence_length\": 10", "is no I32 [2, 10]");
  changed("\"sequences\": 2", "\"sequences\": 3", "3 sequences, and the shards hold 2");
  changed("\"documents\": 3", "\"documents\": 2", "hold 4 in 3");
  changed("\"documents\": 3", "\"documents\": 300", "do not fit");
  changed("\"crc32\": \"", "\"crc32\": \"x", "CRC-32");
  changed("0.safetensors", "../0.safetensors", "no name of a file");
  changed("\"model\"", "\"modem\"", "model");
  changed("\"bytes\": ", "\"bytes\": 1", "index.json says");
}

TEST_CASE("a damaged shard, a shard that is missing and a folder without an index are refused") {
  const Folder folder;
  check_refused(folder, "holds no index.json");
  test::write_packed(folder, {test::two_sequences()});
  std::string bytes = test::read_bytes(folder / "0.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder.write("0.safetensors", bytes);
  check_refused(folder, "checksum");
  folder.write("0.safetensors", bytes.substr(0, 40));
  check_refused(folder, "0.safetensors");
  std::remove((folder / "0.safetensors").c_str());
  check_refused(folder, "0.safetensors");
}

TEST_CASE("a shard that shrinks under a run is an error with its name, and no signal") {
  const Folder folder;
  test::write_packed(folder, {test::two_sequences()});
  const PackedDataset data(folder / "", 10);
  std::filesystem::resize_file(folder / "0.safetensors", 100);
  const auto shrunk = MessageMatches(ContainsSubstring("0.safetensors: has shrunk"));
  CHECK_THROWS_MATCHES(read(data, 0), InputError, shrunk);
  CHECK_THROWS_MATCHES(data.num_targets(0, 2), InputError, shrunk);
  CHECK_THROWS_MATCHES(data.check_all(), InputError, shrunk);
}

}  // namespace
}  // namespace athanor
