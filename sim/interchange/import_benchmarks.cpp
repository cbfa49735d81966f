// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/import_benchmarks.hpp"

#include "sim/interchange/import_benchmarks_formats.hpp"

namespace athanor {

void note_import(Platform& platform, const std::string& sentence) {
  std::string& notes = platform.provenance.notes;
  if (!notes.empty()) notes += "; ";
  notes += sentence;
}

std::vector<std::string> import_benchmark(std::string_view text, const std::string& where,
                                          Platform& platform) {
  const nlohmann::json document = parse_json(text, where);
  JsonReader json(document, ValuePath(where));
  if (json.has("nvbandwidth")) return import_nvbandwidth(json.key("nvbandwidth"), platform);
  if (json.has("nccl_version")) return import_nccl_tests(json, platform);
  json.reject("neither nvbandwidth's JSON (key nvbandwidth) nor nccl-tests' (key nccl_version)",
              "Make it with nvbandwidth -j > FILE or all_gather_perf -J FILE.");
}

}  // namespace athanor
