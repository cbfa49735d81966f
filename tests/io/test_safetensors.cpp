// SPDX-License-Identifier: Apache-2.0
#include "executor/io/safetensors_reader.hpp"
#include "executor/io/safetensors_writer.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/temporary_files.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

namespace athanor {
namespace {

using test::Folder;

TEST_CASE("the reader reads a file of the writer") {
  const Folder folder;
  std::vector<float> weights(6);
  std::iota(weights.begin(), weights.end(), -2.5F);
  const std::vector<float> bias{1.0F, 0.1F};
  {
    SafetensorsWriter writer(folder / "a.safetensors",
                             {{"w", TensorType::F32, {2, 3}, 0},
                              {"none", TensorType::F32, {0, 4}, 0},
                              {"b", TensorType::BF16, {2}, 0},
                              {"scalar", TensorType::F32, {}, 0}},
                             {{"format", "pt"}});
    writer.write("w", std::span<const float>(weights));
    writer.write("none", std::span<const float>());
    writer.write("b", std::span<const float>(bias));
    writer.write("scalar", std::span<const float>(bias).first(1));
    writer.finish();
  }
  const SafetensorsReader reader(folder / "a.safetensors");
  CHECK(reader.header().metadata.at("format") == "pt");
  CHECK(reader.header().data_begin % 8 == 0);
  REQUIRE(reader.header().tensors.size() == 4);
  CHECK(reader.find("x") == nullptr);
  const TensorEntry* w = reader.find("w");
  REQUIRE(w != nullptr);
  CHECK(w->shape == std::vector<std::int64_t>{2, 3});
  std::vector<float> read(6);
  reader.read(*w, read);
  CHECK(read == weights);
  std::vector<float> rounded(2);
  reader.read(*reader.find("b"), rounded);
  CHECK(rounded == std::vector<float>{1.0F, 0.10009765625F});  // 0.1 with 8 bits of mantissa
  CHECK(reader.find("scalar")->num_elements() == 1);
}

TEST_CASE("half precision widens exactly") {
  const std::array<std::uint16_t, 7> halves{0x3C00, 0xC000, 0x0001, 0x8000, 0x7BFF, 0x7C00, 0x3555};
  std::array<float, 7> wide{};
  widen(std::as_bytes(std::span(halves)), TensorType::F16, wide);
  CHECK(wide[0] == 1.0F);
  CHECK(wide[1] == -2.0F);
  CHECK(wide[2] == std::ldexp(1.0F, -24));
  CHECK((wide[3] == 0.0F && std::signbit(wide[3])));
  CHECK(wide[4] == 65504.0F);
  CHECK(wide[5] == std::numeric_limits<float>::infinity());
  CHECK(wide[6] == 0.333251953125F);
  const std::array<std::uint16_t, 1> nan{0x7E00};
  widen(std::as_bytes(std::span(nan)), TensorType::F16, std::span(wide).first(1));
  CHECK(std::isnan(wide[0]));
}

TEST_CASE("the writer takes the header's tensors only, in order and whole") {
  const Folder folder;
  const std::vector<float> values(4);
  SafetensorsWriter writer(folder / "a.safetensors",
                           {{"a", TensorType::F32, {4}, 0}, {"b", TensorType::BF16, {2}, 0}}, {});
  CHECK_THROWS_AS(writer.write("b", std::span<const float>(values)), Error);
  CHECK_THROWS_AS(writer.write("a", std::span<const float>(values).first(3)), Error);
  writer.write("a", std::span<const float>(values));
  CHECK_THROWS_AS(writer.finish(), Error);
  CHECK_THROWS_AS(SafetensorsReader(folder / "a.safetensors"), InputError);
}

TEST_CASE("a file that cannot be created is an error that names it") {
  const Folder folder;
  CHECK_THROWS_AS(SafetensorsWriter(folder / "no/such/file", {}, {}), Error);
}

TEST_CASE("a full disk is an error") {
  if (!std::filesystem::exists("/dev/full")) SKIP("no /dev/full");
  CHECK_THROWS_AS(SafetensorsWriter("/dev/full", {}, {}), Error);
}

TEST_CASE("reading into another size or from another type is refused") {
  const Folder folder;
  SafetensorsWriter writer(folder / "a.safetensors",
                           {{"a", TensorType::F32, {1}, 0}, {"i", TensorType::I32, {1}, 0}}, {});
  const std::string four = test::raw(1.0F);
  writer.write("a", test::as_bytes(four));
  writer.write("i", test::as_bytes(four));
  writer.finish();
  const SafetensorsReader reader(folder / "a.safetensors");
  std::vector<float> to(2);
  CHECK_THROWS_AS(reader.read(*reader.find("a"), to), InputError);
  CHECK_THROWS_AS(reader.read(*reader.find("i"), std::span(to).first(1)), InputError);
}

}  // namespace
}  // namespace athanor
