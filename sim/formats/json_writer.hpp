// SPDX-License-Identifier: Apache-2.0
// JSON with keys in the order in which they are written. Internal to this folder.
#pragma once

#include "sim/formats/json_reader.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/model/provenance.hpp"
#include "sim/model/tier.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor {

using OrderedJson = nlohmann::ordered_json;

/// Writes indented text with a final newline. Doubles are read back bit for bit.
/// Throws Error for a number that is not finite, which JSON cannot hold.
[[nodiscard]] std::string dump_json(const OrderedJson& json);

/// Readers and writers of parts that several files have in common.
[[nodiscard]] OrderedJson json_of(const Provenance& provenance);
[[nodiscard]] Provenance read_provenance(JsonReader json);
/// One key per tier; all of them are required.
[[nodiscard]] OrderedJson json_of(const TierBytes& bytes);
[[nodiscard]] TierBytes read_tier_bytes(JsonReader json);
[[nodiscard]] OrderedJson json_of(const Architecture& architecture);
[[nodiscard]] Architecture read_architecture(JsonReader json);

}  // namespace athanor
