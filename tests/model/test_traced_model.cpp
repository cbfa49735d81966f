// SPDX-License-Identifier: Apache-2.0
// traced.json, the description of a traced model.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/formats/traced_model.hpp"
#include "sim/model/profile.hpp"
#include "tests/model/artefact_samples.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <string>

namespace athanor {
namespace {

using nlohmann::ordered_json;

std::string sample_text() {
  return read_text_file(std::string(ATHANOR_SOURCE_DIR) +
                        "/tests/fuzz/corpus/traced/gemma2-small.json");
}

/// Message of the error that a change to the sample gives.
std::string error_after(const std::function<void(ordered_json&)>& change) {
  ordered_json json = ordered_json::parse(sample_text());
  change(json);
  return test::input_error([&] { (void)parse_traced_model(json.dump(), "traced.json"); }).what();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a traced model has units in execution order, and a graph for each class") {
  const TracedFolder folder = parse_traced_model(sample_text(), "traced.json");
  const Architecture& model = folder.architecture;
  REQUIRE(model.units.size() == 6);
  CHECK(model.units[1].unit_class == model.units[3].unit_class);  // both have a sliding window
  CHECK(model.units[1].unit_class != model.units[2].unit_class);
  CHECK(model.vocab_size() == 256);
  CHECK(model.traced->sequence_length == 16);
  CHECK_FALSE(folder.projection.has_value());  // logits are capped
  CHECK(model.units.back().borrows.size() == 1);
  CHECK(folder.graph_file(3, DataType::BFloat16) == "units/block.0.bfloat16.pt");
}

TEST_CASE("a folder with traced.json is a model of the folder's name") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("small-gemma");
  std::filesystem::create_directory(path);
  CHECK_FALSE(is_traced_folder(path));
  write_file_atomically(path + "/traced.json", sample_text());
  REQUIRE(is_traced_folder(path));
  const Architecture model = load_architecture(path);
  CHECK(model.name == "small-gemma");
  CHECK(model.num_parameters() == 140352);  // as transformers counts
}

TEST_CASE("a profile keeps what is traced") {
  const Architecture model = parse_traced_model(sample_text(), "traced.json").architecture;
  const Profile profile = unmeasured_profile(model, DataType::Float32, 16, 1);
  const Profile read = parse_profile(to_json(profile), "profile.json");
  REQUIRE(read.architecture.traced.has_value());
  CHECK(read.architecture.traced->model_type == "gemma2");
  CHECK(read.architecture.traced->sequence_length == 16);
  CHECK_FALSE(read.architecture.traced->documents);
}

TEST_CASE("a description that is wrong is refused by key and value") {
  CHECK(has(error_after([](auto& json) { json["graphs"].erase(0); }), "5 graphs for 6 units"));
  CHECK(has(error_after([](auto& json) { json["graphs"][1]["name"] = "../block"; }),
            "graphs[1].name: '../block' is no file name"));
  CHECK(has(error_after([](auto& json) { json["graphs"][1]["parameters"][0] = "other"; }),
            "graphs[1].parameters[0]: 'block.0' has no parameter 'other'"));
  CHECK(has(error_after([](auto& json) { json["projection"] = "other"; }),
            "the last unit has no parameter 'other'"));
  CHECK(has(error_after([](auto& json) { json["architecture"]["traced"] = nullptr; }),
            "architecture.traced"));
  CHECK(has(error_after([](auto& json) { json["architecture"]["traced"]["vocab_size"] = 0; }),
            "architecture.traced.vocab_size"));
  CHECK(
      has(error_after([](auto& json) { json["architecture"]["units"][1]["parameters"].erase(0); }),
          "has other shapes than"));
  CHECK(has(error_after([](auto& json) { json["schema"] = "athanor.traced-model/9"; }), "schema"));
  CHECK(has(error_after([](auto& json) { json["more"] = 1; }), "more"));
}

}  // namespace athanor
