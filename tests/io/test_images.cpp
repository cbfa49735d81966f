// SPDX-License-Identifier: Apache-2.0
// Labelled images as training reads them, and broken folders, which are refused with their place.
#include "executor/data/image_dataset.hpp"
#include "executor/data/packed_index.hpp"
#include "executor/data/training_data.hpp"
#include "executor/io/safetensors_writer.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/packed_files.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <filesystem>
#include <set>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

constexpr std::int64_t kChannels = 2, kSide = 2, kPixels = kChannels * kSide * kSide;

ImageClassifierConfig tiny_model() {
  ImageClassifierConfig model;
  model.num_channels = kChannels;
  model.image_size = kSide;
  model.num_labels = 3;
  return model;
}

/// Writes images whose pixels are 10 x image + place, and returns the shard's entry in the index.
std::string write_shard(const Folder& folder, const std::string& name, std::uint8_t first,
                        const std::vector<std::int64_t>& labels) {
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::uint8_t place = 0; place < kPixels; ++place) {
      pixels.push_back(static_cast<std::uint8_t>((first + i) * 10 + place));
    }
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  SafetensorsWriter writer(folder / name,
                           {{"pixels", TensorType::U8, {count, kChannels, kSide, kSide}, 0},
                            {"labels", TensorType::I64, {count}, 0}},
                           {});
  writer.write("pixels", std::as_bytes(std::span(pixels)));
  writer.write("labels", std::as_bytes(std::span(labels)));
  writer.finish();
  const std::string bytes = test::read_bytes(folder / name);
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return fmt::format(R"({{"file": "{}", "images": {}, "bytes": {}, "crc32": "{:08x}"}})", name,
                     count, bytes.size(), crc);
}

std::string index_text(std::int64_t images, const std::string& shards) {
  return fmt::format(
      R"({{"schema": "athanor.images/1", "model": "m", "channels": 2, "height": 2, "width": 2, )"
      R"("images": {}, "scale": 0.5, "mean": [1, 2], "std": [2, 4], "labels": ["a", "b", "c"], )"
      R"("shards": [{}]}})",
      images, shards);
}

/// Five images in two shards.
void write_five(const Folder& folder, std::int64_t fourth_label = 1) {
  const std::string one = write_shard(folder, "0.safetensors", 0, {0, 1, 2});
  const std::string two = write_shard(folder, "1.safetensors", 3, {fourth_label, 0});
  folder.write("index.json", index_text(5, one + ", " + two));
}

std::array<float, kPixels> pixels_of(const ImageDataset& data, std::int64_t index,
                                     std::int64_t& label) {
  std::array<float, kPixels> pixels{};
  label = data.read_sample(index, pixels);
  return pixels;
}

void check_refused(const Folder& folder, const std::string& message,
                   const ImageClassifierConfig& model = tiny_model()) {
  CHECK_THROWS_MATCHES(ImageDataset(folder / "", model).check_all(), InputError,
                       MessageMatches(ContainsSubstring(message)));
}

/// Checks that the index is refused after `from` in its text has become `to`.
void check_change(const std::string& from, const std::string& to, const std::string& message) {
  const Folder folder;
  write_five(folder);
  std::string text = test::read_bytes(folder / "index.json");
  REQUIRE(text.find(from) != std::string::npos);
  folder.write("index.json", text.replace(text.find(from), from.size(), to));
  check_refused(folder, message);
}

TEST_CASE("a sample of images has its channels normalised, and its label") {
  const Folder folder;
  write_five(folder);
  const ImageDataset data(folder / "", tiny_model());
  data.check_all();
  std::int64_t label = -1;
  const auto pixels = pixels_of(data, 3, label);
  CHECK(label == 1);
  CHECK(pixels[0] == Catch::Approx((30 * 0.5 - 1) / 2));
  CHECK(pixels[3] == Catch::Approx((33 * 0.5 - 1) / 2));
  CHECK(pixels[4] == Catch::Approx((34 * 0.5 - 2) / 4));
  CHECK(pixels[7] == Catch::Approx((37 * 0.5 - 2) / 4));
}

TEST_CASE("every pass over images has each once, the first as they are stored") {
  const Folder folder;
  write_five(folder);
  const ImageDataset data(folder / "", tiny_model());
  std::set<std::vector<float>> orders;
  for (std::int64_t pass = 0; pass < 6; ++pass) {
    std::vector<float> firsts;
    for (std::int64_t i = 0; i < 5; ++i) {
      std::int64_t label = -1;
      firsts.push_back(pixels_of(data, pass * 5 + i, label)[0] * 2 + 1);
    }
    if (pass == 0) CHECK(firsts == std::vector<float>{0, 5, 10, 15, 20});
    CHECK(std::set<float>(firsts.begin(), firsts.end()) == std::set<float>{0, 5, 10, 15, 20});
    orders.insert(firsts);
  }
  CHECK(orders.size() > 2);
}

TEST_CASE("images that are not the model's are refused with what the model takes") {
  const Folder folder;
  write_five(folder);
  ImageClassifierConfig model = tiny_model();
  model.image_size = 4;
  check_refused(folder, "--image-size 4", model);
  model = tiny_model();
  model.num_channels = 3;
  check_refused(folder, "index.json:channels: images of 2 channels, and this model takes 3", model);
  model = tiny_model();
  model.num_labels = 2;
  check_refused(folder, "names 3 labels, and the model tells 2 apart", model);
}

TEST_CASE("a broken folder of images is refused with its place") {
  const Folder folder;
  check_refused(folder, "holds no index.json");
  write_five(folder, 3);
  check_refused(folder, "1.safetensors:labels: image 0: label 3 is none of the 3");
  write_five(folder, -1);
  check_refused(folder, "label -1");
  std::filesystem::remove(folder / "1.safetensors");
  check_refused(folder, "1.safetensors");
  check_change(R"("images": 5)", R"("images": 6)", "6 images, and the shards hold");
  check_change(R"("mean": [1, 2])", R"("mean": [1])", "index.json:mean: 1 numbers for 2 channels");
  check_change(R"("std": [2, 4])", R"("std": [2, 0])", "index.json:std[1]");
  check_change(R"("scale": 0.5)", R"("scale": 0)", "index.json:scale");
  check_change(R"(["a", "b", "c"])", "[]", "index.json:labels: names no label");
  check_change(R"("model")", R"("models")", "index.json:model");
  check_change("0.safetensors", "../0.safetensors", "is no name of a file in the folder");
  check_change("athanor.images/1", "athanor.tokens/1", "the folder holds tokens");
  check_change("athanor.images/1", "athanor.images/9", "athanor.images/9");
}

TEST_CASE("a shard of images that was changed is refused by its checksum") {
  const Folder folder;
  write_five(folder);
  std::string bytes = test::read_bytes(folder / "0.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder.write("0.safetensors", bytes);
  check_refused(folder, "0.safetensors: its checksum");
  check_change(R"("bytes": )", R"("bytes": 1)", "bytes, index.json says 1");
}

TEST_CASE("a shard of images that shrinks under a run is an error with its name") {
  const Folder folder;
  write_five(folder);
  const ImageDataset data(folder / "", tiny_model());
  std::filesystem::resize_file(folder / "0.safetensors", 100);
  const auto shrunk = MessageMatches(ContainsSubstring("0.safetensors: has shrunk"));
  std::int64_t label = -1;
  CHECK_THROWS_MATCHES(pixels_of(data, 0, label), InputError, shrunk);
  CHECK_THROWS_MATCHES(data.check_all(), InputError, shrunk);
}

TEST_CASE("data of the other kind of model is named") {
  const Folder folder;
  write_five(folder);
  CHECK_THROWS_MATCHES(
      parse_packed_index(test::read_bytes(folder / "index.json"), "index.json"), InputError,
      MessageMatches(ContainsSubstring("index.json:schema: the folder holds images")));
  CHECK_THROWS_MATCHES(open_image_data({folder.write("a.bin", "abc")}, tiny_model()), InputError,
                       MessageMatches(ContainsSubstring("a.bin: is not one folder")));
  CHECK_THROWS_MATCHES(open_image_data({folder / "", folder / ""}, tiny_model()), InputError,
                       MessageMatches(ContainsSubstring("is not one folder")));
}

}  // namespace
}  // namespace athanor
