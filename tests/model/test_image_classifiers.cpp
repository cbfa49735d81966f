// SPDX-License-Identifier: Apache-2.0
// Classifiers of images from a config.json, and in profiles.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/profile.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <string>

namespace athanor {
namespace {

using nlohmann::ordered_json;

Architecture sample(const std::string& name) {
  const std::string file =
      std::string(ATHANOR_SOURCE_DIR) + "/tests/fuzz/corpus/config/" + name + ".json";
  return parse_architecture(name, read_text_file(file), file);
}

/// A profile of the classifier as text, with the same cost for every class.
ordered_json profile_of(const Architecture& architecture) {
  ordered_json json = ordered_json::parse(to_json(test::sample_profile()));
  Profile profile = parse_profile(json.dump(), "profile.json");
  const UnitCost cost = profile.costs.front();
  profile.architecture = architecture;
  profile.sequence_length = architecture.image_classifier->num_tokens();
  profile.costs.clear();
  for (const Unit& unit : architecture.units) {
    const bool is_known =
        !profile.costs.empty() && profile.costs.back().unit_class == unit.unit_class;
    if (is_known) continue;
    profile.costs.push_back(cost);
    profile.costs.back().unit_class = unit.unit_class;
  }
  return ordered_json::parse(to_json(profile));
}

}  // namespace

TEST_CASE("classifiers of images have units to run, and an image's tokens") {
  const Architecture vit = sample("vit-small");
  REQUIRE(vit.image_classifier.has_value());
  CHECK_FALSE(vit.known_sizes.has_value());
  CHECK_FALSE(vit.vocab_size().has_value());
  CHECK(vit.image_classifier->num_tokens() == 17);
  CHECK(vit.image_classifier->num_labels == 2);
  CHECK_NOTHROW(require_units(vit));
  const Architecture dinov2 = sample("dinov2-small");
  CHECK(dinov2.image_classifier->intermediate_size == 48);  // 2/3 of 64, to a multiple of 8
  CHECK(dinov2.image_classifier->gated);
  CHECK(dinov2.image_classifier->layer_scale == 0.1);
}

TEST_CASE("a profile of a classifier of images is read as it was written") {
  for (const char* name : {"vit-small", "dinov2-small"}) {
    const ordered_json json = profile_of(sample(name));
    const Profile read = parse_profile(json.dump(), "profile.json");
    CHECK(ordered_json::parse(to_json(read)) == json);
    CHECK(read.architecture.image_classifier->model_type ==
          sample(name).image_classifier->model_type);
  }
}

TEST_CASE("a profile whose classifier contradicts its units is refused") {
  const auto error_after = [](const std::string& key, const ordered_json& value) {
    ordered_json json = profile_of(sample("vit-small"));
    json["architecture"]["image_classifier"][key] = value;
    return std::string(
        test::input_error([&] { (void)parse_profile(json.dump(), "profile.json"); }).what());
  };
  CHECK(error_after("num_layers", 3).find("image_classifier.num_layers") != std::string::npos);
  CHECK(error_after("num_heads", 3).find("image_classifier.num_heads") != std::string::npos);
  CHECK(error_after("patch_size", 17).find("image_classifier.patch_size") != std::string::npos);
  CHECK(error_after("colour", 1).find("image_classifier.colour") != std::string::npos);
}

}  // namespace athanor
