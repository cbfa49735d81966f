// SPDX-License-Identifier: Apache-2.0
#include "executor/job/run_record.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <random>
#include <utility>

namespace athanor {
namespace {

using Record = nlohmann::ordered_json;

Record parse_record(const std::string& text) {
  Record record = Record::parse(text, nullptr, /*allow_exceptions=*/false);
  return record.is_object() ? record : Record::object();
}

Record history_of(Record previous) {
  Record history = Record::array();
  if (previous.empty()) return history;
  if (const auto older = previous.find("history"); older != previous.end()) {
    if (older->is_array()) history = std::move(*older);
  }
  for (const char* key : {"history", "run"}) previous.erase(key);
  history.push_back(std::move(previous));
  return history;
}

}  // namespace

std::string new_run_identity() {
  std::random_device random;
  std::string identity;
  for (int i = 0; i < 4; ++i) identity += fmt::format("{:08x}", random());
  return identity;
}

bool is_run_record(const std::string& text) { return parse_record(text).contains("schema"); }

std::string run_identity_in(const std::string& run_json) {
  const Record record = parse_record(run_json);
  const auto run = record.find("run");
  return run != record.end() && run->is_string() ? run->get<std::string>() : std::string();
}

std::string run_record(const std::string& start, const std::string& identity,
                       const std::string& previous) {
  Record record{{"schema", "athanor.run/2"}, {"run", identity}};
  record.update(parse_record(start));
  record["history"] = history_of(parse_record(previous));
  return record.dump(2, ' ', false, Record::error_handler_t::replace) + "\n";
}

std::string with_prediction(const std::string& run_json, const RunPrediction& prediction) {
  Record record = parse_record(run_json);
  const auto value = [](const std::optional<Seconds>& seconds) {
    return seconds ? Record(*seconds) : Record();
  };
  record["predicted_step_seconds"] = value(prediction.first);
  record["repredicted_step_seconds"] = value(prediction.second);
  record["reprediction"] = prediction.second ? Record{{"first_step", prediction.first_step},
                                                      {"last_step", prediction.last_step}}
                                             : Record{{"absent", prediction.absent}};
  return record.dump(2, ' ', false, Record::error_handler_t::replace) + "\n";
}

std::string with_retune(const std::string& run_json, const std::string& retune) {
  Record record = parse_record(run_json);
  Record& list = record["retunes"];
  if (!list.is_array()) list = Record::array();
  list.push_back(parse_record(retune));
  return record.dump(2, ' ', false, Record::error_handler_t::replace) + "\n";
}

std::string with_changed_plan(const std::string& run_json, const std::string& changed_plan) {
  Record record = parse_record(run_json);
  record["changed_plan"] = parse_record(changed_plan);
  return record.dump(2, ' ', false, Record::error_handler_t::replace) + "\n";
}

}  // namespace athanor
