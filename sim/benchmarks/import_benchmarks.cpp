// SPDX-License-Identifier: Apache-2.0
#include "sim/benchmarks/import_benchmarks.hpp"

#include "sim/base/errors.hpp"
#include "sim/benchmarks/formats.hpp"

namespace athanor {

void note_import(Platform& platform, const std::string& sentence) {
  std::string& notes = platform.provenance.notes;
  if (!notes.empty()) notes += "; ";
  notes += sentence;
}

std::string_view benchmark_in(std::string_view text) {
  const auto has = [&](std::string_view key) { return text.find(key) != std::string_view::npos; };
  if (has("\"traceEvents\"")) return {};
  if (is_nccl_text(text) || has("\"nccl_version\"")) return "nccl-tests";
  if (is_nvbandwidth_text(text) || has("\"nvbandwidth\"")) return "nvbandwidth";
  if (has("\"fio version\"")) return "fio";
  return is_stream_text(text) ? "STREAM" : "";
}

std::vector<std::string> import_benchmark(std::string_view text, const std::string& where,
                                          Platform& platform) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  if (is_nccl_text(text)) return import_nccl_text(text, where, platform);
  if (is_nvbandwidth_text(text)) return import_nvbandwidth_text(text, where, platform);
  if (is_stream_text(text)) return import_stream_text(text, where, platform);
  if (is_json) {
    const nlohmann::json document = parse_json(text, where);
    JsonReader json(document, ValuePath(where));
    if (json.has("nvbandwidth")) return import_nvbandwidth(json.key("nvbandwidth"), platform);
    if (json.has("nccl_version")) return import_nccl_tests(json, platform);
    if (json.has("fio version")) return import_fio(json, platform);
  }
  throw InputError(where, "is no result of nvbandwidth, nccl-tests, fio or STREAM",
                   "Give what they print, or the JSON of nvbandwidth -j, all_gather_perf -J FILE "
                   "or fio --output-format=json.");
}

}  // namespace athanor
