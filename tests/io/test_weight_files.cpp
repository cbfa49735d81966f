// SPDX-License-Identifier: Apache-2.0
// Checks that weights which `--model` names are read or refused, and never passed over.
#include "executor/io/hf_folder_writer.hpp"
#include "executor/io/weight_files.hpp"
#include "sim/base/errors.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/chunk_layout.hpp"
#include "tests/io/temporary_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

constexpr const char* kConfig = R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
  "vocab_size": 17, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16})";
const std::string kPickle = std::string("PK\x03\x04", 4) + std::string(60, '\0');

/// Writes whole weights, all of them `value`.
void write_weights(const std::string& folder, float value) {
  const Architecture architecture =
      make_architecture("small", parse_hf_config(kConfig, "config.json"));
  HfFolderWriter writer(folder, architecture, DataType::Float32);
  for (int i = 0; i < static_cast<int>(architecture.units.size()); ++i) {
    std::int64_t elements = 0;
    (void)parameter_offsets(architecture.units[static_cast<std::size_t>(i)], elements);
    writer.write_unit(i, std::vector<float>(static_cast<std::size_t>(elements), value));
  }
  writer.finish();
}

void check_refused(const std::string& model, const std::string& says) {
  CAPTURE(model, says);
  CHECK_THROWS_MATCHES(open_model(model, Weights::AsFound), InputError,
                       MessageMatches(ContainsSubstring(says)));
  CHECK(open_model(model, Weights::Fresh).weights == nullptr);
}

TEST_CASE("weights that are not read are refused with the way to convert them") {
  struct Case {
    std::string file, content, says;
  };
  const std::vector<Case> cases{
      {"pytorch_model.bin", kPickle, "safe_serialization=True"},
      {"pytorch_model-00001-of-00002.bin", "", "pickled weights"},
      {"weights.pth", kPickle, "pickled weights"},
      {"checkpoint.pt", "\x80\x02more", "pickled weights"},
      {"model.bin", kPickle, "pickled weights"},
      {"adapter_model.safetensors", "", "merge_and_unload"},
      {"adapter_config.json", "{}", "an adapter"},
      {"adapter_model.bin", kPickle, "an adapter"},
      {"model-q4.gguf", "GGUF", "gguf_file='model-q4.gguf'"},
      {"consolidated.safetensors", "", "Rename"},
      {"pytorch_model.safetensors", "", "not called model.safetensors"},
      {"model-00001-of-00002.safetensors", "", "model.safetensors.index.json"},
      {"tf_model.h5", "", "from_tf=True"},
      {"flax_model.msgpack", "", "from_flax=True"},
  };
  for (const Case& each : cases) {
    const Folder folder;
    folder.write("config.json", kConfig);
    folder.write(each.file, each.content);
    check_refused(folder / "", each.says);
    check_refused(folder / "config.json", "lies beside " + each.file);
  }
}

TEST_CASE("files beside a configuration that are no weights do not count") {
  const Folder folder;
  folder.write("config.json", kConfig);
  folder.write("tokens.bin", std::string(64, 'a'));
  folder.write("tokenizer.json", "{}");
  folder.write("training_args.bin", kPickle);
  folder.write("optimizer.pt", kPickle);
  CHECK(open_model(folder / "", Weights::AsFound).weights == nullptr);
  CHECK(open_model(folder / "config.json", Weights::AsFound).weights == nullptr);
  CHECK(open_model("gpt2", Weights::AsFound).architecture.name == "gpt2");
}

TEST_CASE("a folder's weights are read, unless fresh ones are asked for") {
  const Folder folder;
  write_weights(folder / "model", 0.5F);
  const ModelSource source = open_model(folder / "model", Weights::AsFound);
  REQUIRE(source.weights);
  CHECK(open_model(folder / "model", Weights::Fresh).weights == nullptr);
  check_refused(folder / "model/config.json", "lies beside model.safetensors");
  CHECK_THROWS_MATCHES(open_model(folder / "model/model.safetensors", Weights::AsFound), InputError,
                       MessageMatches(ContainsSubstring("Name the folder")));
  // An adapter belongs onto the weights beside it, and would be passed over.
  folder.write("model/adapter_config.json", "{}");
  check_refused(folder / "model", "an adapter");
}

TEST_CASE("weights that are not finite are named") {
  const Folder folder;
  for (const float value : {std::nanf(""), INFINITY}) {
    write_weights(folder / "model", value);
    const ModelSource source = open_model(folder / "model", Weights::AsFound);
    std::int64_t elements = 0;
    (void)parameter_offsets(source.architecture.units[0], elements);
    std::vector<float> flat(static_cast<std::size_t>(elements));
    CHECK_THROWS_MATCHES(source.weights->read_unit(0, flat), InputError,
                         MessageMatches(ContainsSubstring("wte.weight: element 0 is ")));
    std::filesystem::remove_all(folder / "model");
  }
}

TEST_CASE("a git-LFS pointer is named wherever it lies") {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 14000\n";
  const Folder folder;
  folder.write("config.json", kConfig);
  folder.write("model.safetensors", pointer);
  CHECK_THROWS_MATCHES(open_model(folder / "", Weights::AsFound), InputError,
                       MessageMatches(ContainsSubstring("git lfs pull")));
  folder.write("config.json", pointer);
  CHECK_THROWS_MATCHES(open_model(folder / "", Weights::Fresh), InputError,
                       MessageMatches(ContainsSubstring("git lfs pull")));
}

}  // namespace
}  // namespace athanor
