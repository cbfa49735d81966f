// SPDX-License-Identifier: Apache-2.0
#include "executor/io/export_source.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/model/language_models.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;
using OrderedConfig = nlohmann::ordered_json;

constexpr Bytes kLargestConfig = 16 * kMiB;
constexpr const char* kTemplates = "additional_chat_templates";  ///< a folder of *.jinja

/// Whether a file says how text becomes tokens, or how to generate. Weights never match.
bool is_companion(const std::string& name) {
  constexpr const char* kCompanions =
      "@(@(tokenizer|special_tokens|added_tokens|vocab|merges|normalizer|generation_config|"
      "chat_template|preprocessor_config|processor_config|video_preprocessor_config|"
      "sentencepiece|spiece|LICENSE|NOTICE|USE_POLICY)*|*.@(tiktoken|jinja))";
  constexpr const char* kWeights = "*.@(safetensors|bin|pt|pth|gguf|h5|msgpack|onnx)";
  const auto matches = [&](const char* pattern) {
    return ::fnmatch(pattern, name.c_str(), FNM_CASEFOLD | FNM_EXTMATCH) == 0;
  };
  return matches(kCompanions) && !matches(kWeights);
}

void add_files(const fs::path& folder, std::vector<fs::path>& files) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    // Download caches hold links to the files.
    if (is_companion(entry.path().filename().string()) && entry.is_regular_file(error)) {
      files.push_back(entry.path());
    }
  }
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(fmt::format("{}: {}", path.string(), what));
}

/// Makes a copied file durable. A full disk may be noticed only here.
void sync_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) fail(path, "cannot be written: " + std::generic_category().message(reason));
}

}  // namespace

ExportSource read_export_source(const std::string& model) {
  ExportSource source;
  std::error_code error;
  if (builtin_config(model)) return source;
  fs::path config = model;
  if (fs::is_directory(config, error)) config /= "config.json";
  source.config_path = config.string();
  source.config = read_text_file(source.config_path, kLargestConfig);
  const fs::path folder = config.has_parent_path() ? config.parent_path() : fs::path(".");
  add_files(folder, source.companions);
  add_files(folder / kTemplates, source.companions);
  std::ranges::sort(source.companions);
  return source;
}

Bytes companion_bytes(const ExportSource& source) {
  Bytes bytes = 0;
  for (const fs::path& file : source.companions) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (!error) bytes += static_cast<Bytes>(size);
  }
  return bytes;
}

std::string exported_config(const ExportSource& source, const Architecture& architecture,
                            DataType dtype) {
  const auto& config = architecture.language_model;
  std::string needed = config ? write_hf_config(*config, dtype) : "{}";
  if (source.config.empty()) {
    if (!config) throw Error(architecture.name + ": a traced model has no config.json to export");
    return needed;
  }
  OrderedConfig json = OrderedConfig::parse(source.config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw InputError(source.config_path, "is no JSON object", "Use the model's config.json.");
  }
  const OrderedConfig made = OrderedConfig::parse(needed);
  json.erase("quantization_config");  // weights are exported as they are trained
  if (!json.contains("architectures") && config) json["architectures"] = made.at("architectures");
  // transformers has two names for it; the newer one is dtype.
  if (!json.contains("dtype") || json.contains("torch_dtype")) {
    json["torch_dtype"] = name_of(kDataTypeNames, dtype);
  }
  if (json.contains("dtype")) json["dtype"] = name_of(kDataTypeNames, dtype);
  return json.dump(2, ' ', false, OrderedConfig::error_handler_t::replace) + "\n";
}

void copy_companions(const ExportSource& source, const fs::path& folder) {
  for (const fs::path& file : source.companions) {
    const bool nested = file.parent_path().filename() == kTemplates;
    const fs::path target = (nested ? folder / kTemplates : folder) / file.filename();
    std::error_code error;
    if (nested) fs::create_directories(target.parent_path(), error);
    if (!error) fs::copy_file(file, target, error);
    if (error) {
      fail(target, fmt::format("cannot be copied from {}: {}", file.string(), error.message()));
    }
    sync_file(target);
  }
}

}  // namespace athanor
