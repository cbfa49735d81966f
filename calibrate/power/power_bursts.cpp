// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power/power_bursts.hpp"

#include "sim/formats/json_reader.hpp"
#include "sim/formats/json_writer.hpp"

#include <vector>

namespace athanor {
namespace {

OrderedJson json_of(const KernelBursts& bursts) {
  OrderedJson kernels = OrderedJson::array();
  for (const KernelBursts::Kernel& kernel : bursts.kernels) {
    kernels.push_back({kernel.start, kernel.seconds});
  }
  return {{"running_share", bursts.running_share},
          {"watts", bursts.watts},
          {"kernels", std::move(kernels)}};
}

double positive(const JsonReader& json) {
  const double value = json.number();
  if (!(value > 0)) json.reject("is not above zero", "Measure again.");
  return value;
}

KernelBursts::Kernel read_kernel(const JsonReader& json, Seconds not_before) {
  const std::vector<JsonReader> pair = json.items();
  if (pair.size() != 2) json.reject("is no pair of start and duration", "Measure again.");
  const Seconds start = pair[0].number();
  if (!(start >= not_before)) pair[0].reject("starts before the one before it", "Measure again.");
  return {start, positive(pair[1])};
}

KernelBursts read_bursts(JsonReader json) {
  KernelBursts bursts;
  bursts.running_share = positive(json.key("running_share"));
  bursts.watts = positive(json.key("watts"));
  Seconds start = 0;
  for (const JsonReader& kernel : json.key("kernels").items()) {
    bursts.kernels.push_back(read_kernel(kernel, start));
    start = bursts.kernels.back().start;
  }
  json.reject_other_keys();
  return bursts;
}

}  // namespace

std::string to_json(const PowerMeasurements& measured, const Provenance& provenance) {
  OrderedJson bursts = OrderedJson::array();
  for (const KernelBursts& each : measured.bursts) bursts.push_back(json_of(each));
  const OrderedJson document{{"schema", "athanor.power-bursts/1"},
                             {"provenance", athanor::json_of(provenance)},
                             {"sustained", json_of(measured.sustained)},
                             {"bursts", std::move(bursts)}};
  // One line, because there are thousands of kernels.
  return document.dump() + "\n";
}

PowerMeasurements parse_power_bursts(std::string_view text, const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  JsonReader json(document, ValuePath(file));
  check_schema(json, "power-bursts", "calibrate --power-bursts");
  static_cast<void>(read_provenance(json.key("provenance")));
  PowerMeasurements measured;
  measured.sustained = read_bursts(json.key("sustained"));
  for (const JsonReader& bursts : json.key("bursts").items()) {
    measured.bursts.push_back(read_bursts(bursts));
  }
  json.reject_other_keys();
  return measured;
}

}  // namespace athanor
