// SPDX-License-Identifier: Apache-2.0
// athanor.rates/1: what a run has measured of its lanes (see executor/job/README.md).
#include "sim/formats/files.hpp"
#include "sim/formats/json_writer.hpp"

#include <optional>
#include <string>
#include <utility>

namespace athanor {
namespace {

double positive(const JsonReader& json) {
  const double value = json.number();
  if (value > 0) return value;
  json.reject("is not above 0", "Use the rates.json that athanor train wrote.");
}

double not_negative(const JsonReader& json) {
  const double value = json.number();
  if (value >= 0) return value;
  json.reject("is below 0", "Use the rates.json that athanor train wrote.");
}

std::optional<double> read_spread(JsonReader& json) {
  const auto spread = json.optional_key("spread");
  return spread ? std::optional(not_negative(*spread)) : std::nullopt;
}

OrderedJson json_of(const RateKey& key, const MeasuredRate& rate) {
  OrderedJson json{{"kind", name_of(kOpKindNames, key.kind)},
                   {"lane", name_of(kLaneNames, key.lane)}};
  if (!key.unit_class.empty()) json["unit_class"] = key.unit_class;
  if (key.variant) json["variant"] = true;
  json["count"] = rate.count;
  json["seconds"] = rate.seconds;
  if (rate.spread) json["spread"] = *rate.spread;
  return json;
}

RateKey read_key(JsonReader& json) {
  RateKey key{.kind = json.key("kind").choice(kOpKindNames),
              .lane = json.key("lane").choice(kLaneNames)};
  if (const auto unit_class = json.optional_key("unit_class")) key.unit_class = unit_class->name();
  if (const auto variant = json.optional_key("variant")) key.variant = variant->boolean();
  return key;
}

void read_rate(JsonReader json, MeasuredRates& rates) {
  RateKey key = read_key(json);
  const MeasuredRate rate{.count = json.key("count").integer(1),
                          .seconds = not_negative(json.key("seconds")),
                          .spread = read_spread(json)};
  json.reject_other_keys();
  if (!rates.rates.emplace(std::move(key), rate).second) {
    json.reject("is there twice", "Use the rates.json that athanor train wrote.");
  }
}

MeasuredLaunches read_launches(JsonReader json) {
  const MeasuredLaunches launches{.count = json.key("count").integer(1),
                                  .seconds = positive(json.key("seconds")),
                                  .calibrated = positive(json.key("calibrated_seconds")),
                                  .spread = read_spread(json)};
  json.reject_other_keys();
  return launches;
}

}  // namespace

std::string to_json(const MeasuredRates& rates) {
  OrderedJson json{{"schema", "athanor.rates/1"},
                   {"first_step", rates.first_step},
                   {"last_step", rates.last_step},
                   {"rates", OrderedJson::array()}};
  for (const auto& [key, rate] : rates.rates) json["rates"].push_back(json_of(key, rate));
  if (const auto& launches = rates.launches) {
    json["launches"] = {{"count", launches->count},
                        {"seconds", launches->seconds},
                        {"calibrated_seconds", launches->calibrated}};
    if (launches->spread) json["launches"]["spread"] = *launches->spread;
  }
  return dump_json(json);
}

MeasuredRates parse_rates(std::string_view text, const std::string& where) {
  const nlohmann::json document = parse_json(text, where);
  JsonReader json(document, ValuePath(where));
  check_schema(json, "rates", "train");
  MeasuredRates rates;
  rates.first_step = json.key("first_step").integer(1);
  rates.last_step = json.key("last_step").integer(rates.first_step);
  for (const JsonReader& entry : json.key("rates").items()) read_rate(entry, rates);
  if (const auto launches = json.optional_key("launches")) {
    rates.launches = read_launches(*launches);
  }
  json.reject_other_keys();
  return rates;
}

}  // namespace athanor
