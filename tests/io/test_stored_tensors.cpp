// SPDX-License-Identifier: Apache-2.0
// Experts' parameters as tensors of a folder's files: reference.py compares whole models.
#include "executor/io/export_source.hpp"
#include "executor/io/hf_folder_reader.hpp"
#include "executor/io/safetensors_writer.hpp"
#include "executor/io/stored_tensors.hpp"
#include "executor/io/tensor_type.hpp"
#include "executor/io/weight_files.hpp"
#include "sim/base/errors.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/chunk_layout.hpp"
#include "tests/io/temporary_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

constexpr std::int64_t kHidden = 40, kInner = 3, kExperts = 2;
constexpr const char* kConfig = R"({"model_type": "gpt_oss", "vocab_size": 11, "hidden_size": 40,
  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
  "intermediate_size": 3, "max_position_embeddings": 16, "num_local_experts": 2,
  "num_experts_per_tok": 1})";
constexpr const char* kQuantized = R"({"model_type": "gpt_oss", "vocab_size": 11,
  "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
  "head_dim": 4, "intermediate_size": 32, "max_position_embeddings": 16, "num_local_experts": 2,
  "num_experts_per_tok": 1, "quantization_config": {"quant_method": "mxfp4"}})";

Architecture tiny() { return parse_architecture("tiny", kConfig, "config.json"); }

StoredTensor stored(const std::string& name) {
  const Architecture architecture = tiny();
  for (const StoredTensor& each : stored_tensors(architecture, architecture.units[1])) {
    if (each.tensor.name == "model.layers.0.mlp.experts." + name) return each;
  }
  FAIL("no tensor " << name);
  return {};
}

/// Values of each parameter of a stored tensor whose values count from 0.
std::vector<std::vector<float>> parts_of(const StoredTensor& stored) {
  const Architecture architecture = tiny();
  const Unit& unit = architecture.units[1];
  std::vector<float> file(static_cast<std::size_t>(stored.tensor.num_elements()));
  std::iota(file.begin(), file.end(), 0.0F);
  std::vector<std::vector<float>> parts;
  std::vector<std::span<float>> views;
  for (std::size_t i = stored.first; i < stored.first + stored.count; ++i) {
    parts.emplace_back(static_cast<std::size_t>(unit.parameters[i].num_elements()), -1.0F);
  }
  for (std::vector<float>& part : parts) views.emplace_back(part);
  take_apart(stored, unit, file, views);

  std::vector<float> again(file.size(), -1.0F);
  put_together(stored, unit, {views.begin(), views.end()}, again);
  CHECK(again == file);
  return parts;
}

TEST_CASE("gates and ups of gpt_oss take turns in files, whose matrices have inputs first") {
  const StoredTensor gate_up = stored("gate_up_proj");
  CHECK(gate_up.tensor.shape == std::vector<std::int64_t>{kExperts, kHidden, 2 * kInner});
  const auto parts = parts_of(gate_up);
  REQUIRE(parts.size() == 2 * kExperts);
  for (std::int64_t part = 0; part < 2 * kExperts; ++part) {
    const std::int64_t expert = part / 2, layer = part % 2;
    for (std::int64_t out = 0; out < kInner; ++out) {
      for (std::int64_t in = 0; in < kHidden; ++in) {
        const std::int64_t at = (expert * kHidden + in) * 2 * kInner + 2 * out + layer;
        CHECK(parts[part][out * kHidden + in] == static_cast<float>(at));
      }
    }
  }
}

TEST_CASE("downs of gpt_oss are transposed, and biases take turns where matrices do") {
  const StoredTensor down = stored("down_proj");
  CHECK(down.tensor.shape == std::vector<std::int64_t>{kExperts, kInner, kHidden});
  CHECK(parts_of(down)[1][5 * kInner + 2] == (1 * kInner + 2) * kHidden + 5);
  const StoredTensor biases = stored("gate_up_proj_bias");
  CHECK(biases.tensor.shape == std::vector<std::int64_t>{kExperts, 2 * kInner});
  CHECK(parts_of(biases) ==
        std::vector<std::vector<float>>{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}});
  const StoredTensor down_bias = stored("down_proj_bias");
  CHECK(down_bias.tensor.shape == std::vector<std::int64_t>{kExperts, kHidden});
  CHECK(parts_of(down_bias)[1].front() == kHidden);
}

TEST_CASE("elements of MXFP4 are a sign, an exponent and one bit, times a power of two") {
  constexpr std::size_t kBytes = kMxfp4Block / 2;
  std::vector<std::byte> blocks(3 * kBytes);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = static_cast<std::byte>((i % 8) * 2 + 16 * ((i % 8) * 2 + 1));
  }
  const std::vector<std::byte> scales{std::byte{127}, std::byte{125}, std::byte{255}};
  std::vector<float> values(3 * kMxfp4Block, 99.0F);
  widen_mxfp4(blocks, scales, values);
  const std::vector<float> positive{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::size_t i = 0; i < 2 * kMxfp4Block; ++i) {
    const float value = positive[i % 8] * (i % 16 < 8 ? 1.0F : -1.0F);
    CHECK(values[i] == (i < kMxfp4Block ? value : value / 4));
  }
  CHECK(std::isnan(values.back()));
}

/// Writes a folder of kQuantized, whose experts are in MXFP4 of 2^-1 but where `edit` changes it.
void write_quantized(const Folder& folder,
                     const std::function<void(std::vector<TensorEntry>&)>& edit = {}) {
  folder.write("config.json", kQuantized);
  const Architecture architecture = parse_architecture("tiny", kQuantized, "config.json");
  std::vector<TensorEntry> tensors;
  for (const Unit& unit : architecture.units) {
    for (const StoredTensor& each : stored_tensors(architecture, unit)) {
      const auto& [name, shape] = each.tensor;
      if (each.layers_in_turns > 0 && shape.size() == 3) {
        tensors.push_back({name + "_blocks", TensorType::U8, {shape[0], shape[2], 1, 16}, 0});
        tensors.push_back({name + "_scales", TensorType::U8, {shape[0], shape[2], 1}, 0});
      } else {
        tensors.push_back({name, TensorType::F32, shape, 0});
      }
    }
  }
  if (edit) edit(tensors);
  SafetensorsWriter writer(folder / "model.safetensors", tensors, {{"format", "pt"}});
  for (const TensorEntry& tensor : tensors) {
    // Elements of 1.5 and -0.5, whose scale is a half.
    const auto byte = static_cast<std::byte>(tensor.name.ends_with("_scales") ? 126 : 0x93);
    const bool is_quantized = tensor.type == TensorType::U8;
    writer.write(tensor.name, std::vector<std::byte>(static_cast<std::size_t>(tensor.bytes()),
                                                     is_quantized ? byte : std::byte{0}));
  }
  writer.finish();
}

TEST_CASE("experts in MXFP4 are read, and exported configurations are not quantized") {
  const Folder folder;
  write_quantized(folder);
  const ModelSource source = open_model(folder / "", Weights::AsFound);
  const Unit& unit = source.architecture.units[1];
  std::int64_t elements = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(unit, elements);
  std::vector<float> flat(static_cast<std::size_t>(elements));
  source.weights->read_unit(1, flat);
  std::size_t matrices = 0;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const bool is_expert = unit.parameters[i].name.find(".experts.") != std::string::npos;
    if (!is_expert || unit.parameters[i].shape.size() == 1) continue;
    ++matrices;
    const auto values = std::span(flat).subspan(static_cast<std::size_t>(offsets[i]), 32 * 32);
    for (std::size_t k = 0; k < values.size(); ++k) CHECK(values[k] == (k % 2 == 0 ? 0.75 : -0.25));
  }
  CHECK(matrices == 3 * kExperts);
  const std::string exported =
      exported_config(read_export_source(folder / ""), source.architecture, DataType::BFloat16);
  CHECK(exported.find("quantization") == std::string::npos);
}

TEST_CASE("tensors in MXFP4 that do not fit are refused by name") {
  using Edit = std::function<void(TensorEntry&)>;
  const std::pair<Edit, std::string> broken = GENERATE(
      values<std::pair<Edit, std::string>>({{[](TensorEntry& t) { t.shape[0] = 1; }, "has shape"},
                                            {[](TensorEntry& t) { t.type = TensorType::I8; }, "U8"},
                                            {[](TensorEntry& t) { t.name += "?"; }, "missing"}}));
  const Folder folder;
  const std::string name = "model.layers.0.mlp.experts.down_proj_scales";
  write_quantized(folder, [&](std::vector<TensorEntry>& tensors) {
    broken.first(*std::ranges::find(tensors, name, &TensorEntry::name));
  });
  CHECK_THROWS_MATCHES(open_model(folder / "", Weights::AsFound), InputError,
                       MessageMatches(ContainsSubstring(name) && ContainsSubstring(broken.second)));
}

}  // namespace
}  // namespace athanor
