// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/records.hpp"

#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/engine/whole_master.hpp"

#include <filesystem>
#include <utility>

namespace athanor::test {
namespace {

using nlohmann::json;

/// Returns the path of a file that `record` names relative to its own folder.
std::string beside(const std::string& record, const std::string& path) {
  return record_path(std::filesystem::path(record).parent_path().string() + "/" + path);
}

}  // namespace

std::string record_path(const std::string& name) {
  return std::string(ATHANOR_SOURCE_DIR) + "/traces/records/" + name;
}

json read_record(const std::string& name) { return json::parse(read_text_file(record_path(name))); }

std::vector<std::string> recorded_runs() {
  std::vector<std::string> names;
  const json manifest = read_record("manifest.json");
  for (const json& lease : manifest.at("leases")) {
    if (!lease.contains("runs")) continue;
    names.push_back(lease.at("folder").get<std::string>() + "/" +
                    lease.at("runs").get<std::string>());
  }
  return names;
}

Platform platform_of(const json& run, const json& record, const std::string& name) {
  const std::string path = beside(name, record.at("platform").get<std::string>());
  json platform = json::parse(read_text_file(path));
  if (run.contains("platform_changes")) platform.merge_patch(run.at("platform_changes"));
  return parse_platform(platform.dump(), path);
}

Profile profile_of(const json& run, const std::string& name) {
  return read_profile(beside(name, run.at("profile").get<std::string>()));
}

Plan plan_of(const json& run) {
  return parse_plan(run.at("plan").dump(), run.at("name").get<std::string>());
}

Program program_of(const json& run, const std::string& name) {
  Program program = lower(profile_of(run, name), plan_of(run));
  return run.value("split_master", false) ? program : with_whole_masters(std::move(program));
}

}  // namespace athanor::test
