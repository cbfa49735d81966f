// SPDX-License-Identifier: Apache-2.0
// JSON with keys in the order in which they are written. Internal to this folder.
#pragma once

#include "sim/formats/json_reader.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/model/provenance.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor {

using OrderedJson = nlohmann::ordered_json;

/// Indented text with a final newline. Doubles are written so that they are read back bit for bit.
/// Throws Error for a number that is not finite, which JSON cannot hold.
[[nodiscard]] std::string dump_json(const OrderedJson& json);

/// Parts that several files have in common.
[[nodiscard]] OrderedJson json_of(const Provenance& provenance);
[[nodiscard]] Provenance read_provenance(JsonReader json);
[[nodiscard]] OrderedJson json_of(const Architecture& architecture);
[[nodiscard]] Architecture read_architecture(JsonReader json);

}  // namespace athanor
