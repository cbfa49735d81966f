// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/json_writer.hpp"

#include "sim/base/errors.hpp"

#include <cmath>

namespace athanor {
namespace {

void require_finite(const OrderedJson& json, const std::string& path) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    throw Error("cannot write " + path + ": the number is not finite.");
  }
  if (json.is_structured()) {
    for (const auto& [key, value] : json.items()) {
      require_finite(value, path.empty() ? key : path + "." + key);
    }
  }
}

}  // namespace

std::string dump_json(const OrderedJson& json) {
  require_finite(json, "");
  // Names may come from a user's own modules: bytes that are not UTF-8 must not lose the file.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

OrderedJson json_of(const Provenance& provenance) {
  return {{"source", name_of(kSourceNames, provenance.source)},
          {"date", provenance.date},
          {"command", provenance.command},
          {"versions", provenance.versions},
          {"notes", provenance.notes}};
}

OrderedJson json_of(const TierBytes& bytes) {
  OrderedJson json;
  for (const auto& [name, tier] : kTierNames) json[std::string(name)] = bytes_of(bytes, tier);
  return json;
}

TierBytes read_tier_bytes(JsonReader json) {
  TierBytes bytes;
  for (const auto& [name, tier] : kTierNames) {
    bytes_of(bytes, tier) = json.key(std::string(name)).integer(0);
  }
  json.reject_other_keys();
  return bytes;
}

Provenance read_provenance(JsonReader json) {
  Provenance provenance;
  provenance.source = json.key("source").choice(kSourceNames);
  provenance.date = json.key("date").string();
  provenance.command = json.key("command").string();
  provenance.notes = json.key("notes").string();
  JsonReader versions = json.key("versions");
  for (const std::string& name : versions.keys()) {
    provenance.versions[name] = versions.key(name).string();
  }
  json.reject_other_keys();
  return provenance;
}

}  // namespace athanor
