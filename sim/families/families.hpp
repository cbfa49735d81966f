// SPDX-License-Identifier: Apache-2.0
// Model types whose sizes athanor knows from its table. Of these, only the classifiers of
// images have units of athanor's own.
#pragma once

#include "sim/model/architecture.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>

namespace athanor {

/// Number of model types that have a family.
[[nodiscard]] std::size_t num_known_families() noexcept;

/// Whether make_known_architecture makes a model of this config.json.
[[nodiscard]] bool knows_sizes(const nlohmann::json& config);

/// Makes the units of the class of transformers that `architectures` names, or of the causal
/// language model where it names none. A classifier of images that athanor can train has an
/// image_classifier, anything else known_sizes. `where` stands for the file in messages. Throws
/// InputError (file:key, value, way out).
[[nodiscard]] Architecture make_known_architecture(const std::string& name,
                                                   const nlohmann::json& config,
                                                   const std::string& where);

}  // namespace athanor
