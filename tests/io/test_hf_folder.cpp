// SPDX-License-Identifier: Apache-2.0
#include "executor/io/hf_folder_reader.hpp"
#include "executor/io/hf_folder_writer.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/chunk_layout.hpp"
#include "tests/io/temporary_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

Architecture tiny_gpt2() {
  LanguageModelConfig config;
  config.model_type = "gpt2";
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.num_layers = 2;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 4;
  config.intermediate_size = 32;
  config.max_positions = 5;
  config.activation = "gelu_new";
  config.tie_word_embeddings = true;
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  return make_architecture("tiny", config);
}

/// Returns distinct values that bf16 holds exactly; zero in the padding.
std::vector<float> values_of(const Unit& unit, int number) {
  std::int64_t elements = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(unit, elements);
  std::vector<float> flat(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    for (std::int64_t j = 0; j < unit.parameters[i].num_elements(); ++j) {
      flat[static_cast<std::size_t>(offsets[i] + j)] =
          static_cast<float>((j + 17 * static_cast<std::int64_t>(i) + number) % 128);
    }
  }
  return flat;
}

void write_folder(const std::string& path, const Architecture& architecture, DataType dtype,
                  Bytes max_shard_bytes = HfFolderWriter::kMaxShardBytes) {
  HfFolderWriter writer(path, architecture, dtype, {}, max_shard_bytes);
  for (int i = 0; i < static_cast<int>(architecture.units.size()); ++i) {
    writer.write_unit(i, values_of(architecture.units[static_cast<std::size_t>(i)], i));
  }
  writer.finish();
}

void check_folder(const std::string& path, const Architecture& architecture) {
  const HfFolder folder(path);
  REQUIRE(folder.architecture().units.size() == architecture.units.size());
  for (std::size_t i = 0; i < architecture.units.size(); ++i) {
    const std::vector<float> expected = values_of(architecture.units[i], static_cast<int>(i));
    std::vector<float> flat(expected.size(), -1.0F);
    folder.read_unit(static_cast<int>(i), flat);
    CHECK(flat == expected);
  }
}

TEST_CASE("an exported folder reads back") {
  const Folder folder;
  const Architecture architecture = tiny_gpt2();
  const auto dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  const auto max_shard_bytes = GENERATE(Bytes{1} << 30, Bytes{2000}, Bytes{1});
  write_folder(folder / "model/", architecture, dtype, max_shard_bytes);
  CHECK(fs::exists(folder / "model/model.safetensors") == (max_shard_bytes > 2000));
  CHECK(fs::exists(folder / "model/model.safetensors.index.json") == (max_shard_bytes <= 2000));
  check_folder(folder / "model", architecture);
  CHECK(std::distance(fs::directory_iterator(folder / "."), fs::directory_iterator()) == 1);
}

TEST_CASE("no shard holds more than its limit unless one tensor does") {
  const Folder folder;
  write_folder(folder / "model", tiny_gpt2(), DataType::Float32, 2000);
  for (const auto& entry : fs::directory_iterator(folder / "model")) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsReader reader(entry.path().string());
    Bytes bytes = 0;
    for (const TensorEntry& tensor : reader.header().tensors) bytes += tensor.bytes();
    CHECK((bytes <= 2000 || reader.header().tensors.size() == 1));
  }
}

TEST_CASE("an unfinished export leaves nothing, and nothing is overwritten") {
  const Folder folder;
  const Architecture architecture = tiny_gpt2();
  {
    HfFolderWriter writer(folder / "model", architecture, DataType::Float32);
    writer.write_unit(0, values_of(architecture.units[0], 0));
    CHECK_THROWS_AS(writer.write_unit(2, values_of(architecture.units[2], 2)), Error);
    CHECK_THROWS_AS(writer.finish(), Error);
  }
  CHECK(fs::is_empty(folder / "."));
  folder.write("model", "precious");
  CHECK_THROWS_AS(HfFolderWriter(folder / "model", architecture, DataType::Float32), InputError);
  CHECK(read_text_file(folder / "model") == "precious");
  folder.write("empty", "");
  CHECK_THROWS_AS(HfFolderWriter(folder / "empty", architecture, DataType::Float32), InputError);
}

using Tensors = std::vector<TensorEntry>;

/// Makes a folder whose weights are `edit`ed before they are written, all zero.
void write_edited(const Folder& folder, const std::function<void(Tensors&)>& edit) {
  const Architecture architecture = tiny_gpt2();
  Tensors tensors;
  for (const Unit& unit : architecture.units) {
    for (const Parameter& p : unit.parameters) {
      tensors.push_back({p.name, TensorType::F32, p.shape, 0});
    }
  }
  edit(tensors);
  folder.write("config.json", write_hf_config(*architecture.language_model, DataType::Float32));
  SafetensorsWriter writer(folder / "model.safetensors", tensors, {});
  for (const TensorEntry& tensor : tensors) {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(tensor.bytes()));
    writer.write(tensor.name, std::span<const std::byte>(zeros));
  }
  writer.finish();
}

TEST_CASE("masks, a tied head and names without the model's prefix are accepted") {
  const Folder folder;
  write_edited(folder, [](Tensors& tensors) {
    for (TensorEntry& tensor : tensors) {
      tensor.name = tensor.name.substr(std::string("transformer.").size());
    }
    tensors.push_back({"h.0.attn.bias", TensorType::U8, {1, 1, 5, 5}, 0});
    tensors.push_back({"h.0.attn.masked_bias", TensorType::F32, {}, 0});
    tensors.push_back({"lm_head.weight", TensorType::F32, {11, 8}, 0});
  });
  CHECK_NOTHROW(HfFolder(folder / "."));
}

struct Edit {
  const char* message;
  void (*edit)(Tensors&);
};

TEST_CASE("weights that do not fit config.json are refused") {
  const Edit edit = GENERATE(
      Edit{"transformer.wte.weight: this tensor is missing",
           [](Tensors& t) { t.erase(t.begin()); }},
      Edit{"model.safetensors:surplus",
           [](Tensors& t) { t.push_back({"surplus", TensorType::F32, {1}, 0}); }},
      Edit{"[12, 8], config.json asks for [11, 8]", [](Tensors& t) { t[0].shape[0] = 12; }},
      Edit{"has shape [88]", [](Tensors& t) { t[0].shape = {88}; }},
      Edit{"has type I32", [](Tensors& t) { t[0].type = TensorType::I32; }},
      Edit{"model.safetensors:wte.weight: this tensor is unknown",
           [](Tensors& t) { t.push_back({"wte.weight", TensorType::F32, {11, 8}, 0}); }},
      Edit{"model.safetensors:lm_head.weight: is not the embedding transformer.wte.weight",
           [](Tensors& t) { t.push_back({"lm_head.weight", TensorType::F16, {11, 8}, 0}); }});
  const Folder folder;
  write_edited(folder, edit.edit);
  CHECK_THROWS_MATCHES(HfFolder(folder / "."), InputError,
                       MessageMatches(ContainsSubstring(edit.message)));
}

TEST_CASE("broken folders are refused") {
  const Folder folder;
  const auto refused = [&](const std::string& message) {
    CHECK_THROWS_MATCHES(HfFolder(folder / "model"), InputError,
                         MessageMatches(ContainsSubstring(message)));
  };
  refused("model");
  write_folder(folder / "model", tiny_gpt2(), DataType::Float32, 2000);
  const std::string index = folder / "model/model.safetensors.index.json";
  const std::string text = read_text_file(index);
  const auto refused_index = [&](const std::string& content, const std::string& message) {
    write_file_atomically(index, content);
    refused(message);
  };
  refused_index("{}", "weight_map");
  refused_index(R"({"weight_map":{"a":"../model.safetensors"}})", "is no file name");
  refused_index(R"({"weight_map":{"a":""}})", "is no file name");
  refused_index(R"({"weight_map":{"a":3}})", "weight_map.a");
  refused_index(R"({"weight_map":{"a":"gone.safetensors"}})", "gone.safetensors");
  refused_index(R"({"weight_map":{}})", "missing from the weights");
  write_file_atomically(index, text);
  const std::string first = folder / "model/model-00001-of-";
  const std::string shard = first + text.substr(text.find("-of-") + 4, 5) + ".safetensors";
  fs::copy_file(shard, folder / "model/copy.safetensors");
  std::string twice = text;
  twice.replace(twice.rfind('}', twice.rfind('}') - 1), 1, R"(,"copy":"copy.safetensors"})");
  refused_index(twice, "is also in");
  fs::remove(index);
  refused("has neither");
}

}  // namespace
}  // namespace athanor
