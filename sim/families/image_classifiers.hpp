// SPDX-License-Identifier: Apache-2.0
// Classifiers of images that athanor trains: ViTForImageClassification,
// Dinov2ForImageClassification.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/model/image_classifier.hpp"

#include <optional>
#include <string>

namespace athanor::families {

/// Reads what such a class needs to run; nothing for any other class. Throws InputError that names
/// the key of a setting that training would have to leave out.
[[nodiscard]] std::optional<ImageClassifierConfig> read_image_classifier(
    const ConfigReader& config, const std::string& class_name);

}  // namespace athanor::families
