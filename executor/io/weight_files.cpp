// SPDX-License-Identifier: Apache-2.0
#include "executor/io/weight_files.hpp"

#include "executor/io/mapped_file.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/formats/traced_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

enum class Kind { Ours, Adapter, Pickle, Gguf, OtherName, OtherFramework };

struct WeightFile {
  fs::path path;
  Kind kind;
};

/// Whether the file is a zip or a pickle, which torch.save writes under many names.
bool is_pickled(const fs::path& path) {
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable)) return false;  // a pipe would wait for its writer
  std::array<char, 4> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  const std::string_view bytes(start.data(), start.size());
  return bytes.starts_with("PK\x03\x04") || bytes.starts_with("\x80\x02") ||
         bytes.starts_with("\x80\x03") || bytes.starts_with("\x80\x04");
}

std::optional<Kind> kind_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  if (name == kWeightFile || name == kWeightIndex) return Kind::Ours;
  if (name.starts_with("adapter_")) return Kind::Adapter;
  if (extension == ".gguf") return Kind::Gguf;
  if (extension == ".safetensors") return Kind::OtherName;
  if (name.starts_with("pytorch_model")) return Kind::Pickle;
  for (const char* tensor_files : {".pt", ".pth", ".ckpt", ".bin"}) {
    // Tokens and a trainer's state have these endings, too. A pickle is told by its first bytes.
    if (extension == tensor_files && is_pickled(path) && !name.starts_with("training_args") &&
        !name.starts_with("optimizer") && !name.starts_with("scheduler") &&
        !name.starts_with("rng_state")) {
      return Kind::Pickle;
    }
  }
  const bool other = name == "tf_model.h5" || name == "flax_model.msgpack";
  return other ? std::optional(Kind::OtherFramework) : std::nullopt;
}

/// Returns the weight files of a folder in the order of their kinds, then of their names.
std::vector<WeightFile> weights_in(const fs::path& folder) {
  std::vector<WeightFile> files;
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end;
       entry.increment(unreadable)) {
    std::error_code hidden;
    if (entry->is_directory(hidden)) continue;
    if (const auto kind = kind_of(entry->path())) files.push_back({entry->path(), *kind});
  }
  if (unreadable) {
    throw InputError(folder.string(), "cannot be read: " + unreadable.message(),
                     "Check the path and its permissions.");
  }
  std::sort(files.begin(), files.end(), [](const WeightFile& a, const WeightFile& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.path < b.path;
  });
  return files;
}

const char* what_it_is(Kind kind) {
  switch (kind) {
    case Kind::Ours:
      return "weights";
    case Kind::Adapter:
      return "an adapter, which belongs onto the weights of a base model";
    case Kind::Pickle:
      return "pickled weights, which are not read";
    case Kind::Gguf:
      return "GGUF weights, which are not read";
    case Kind::OtherName:
      return "weights that are not called model.safetensors";
    case Kind::OtherFramework:
      break;
  }
  return "weights of another framework, which are not read";
}

/// Returns transformers' name for the folder's kind of model.
std::string_view auto_class(const std::string& folder) {
  const fs::path config = fs::path(folder) / "config.json";
  const bool images =
      is_there(config) &&
      read_text_file(config.string(), kMaxDocument).find("ForImageClassification") !=
          std::string::npos;
  return images ? "AutoModelForImageClassification" : "AutoModelForCausalLM";
}

std::string convert(std::string_view load, const std::string& folder) {
  return fmt::format(
      "Convert it: python3 -c \"from transformers import {} as M; {}"
      ".save_pretrained('NEW', safe_serialization=True)\". --fresh starts from fresh weights.",
      auto_class(folder), load);
}

std::string way_out(const WeightFile& file, const std::string& folder) {
  switch (file.kind) {
    case Kind::Adapter:
      return fmt::format(
          "Merge it: python3 -c \"from peft import AutoPeftModelForCausalLM as M; "
          "M.from_pretrained('{}').merge_and_unload().save_pretrained('NEW')\". --fresh starts "
          "from fresh weights.",
          folder);
    case Kind::Gguf:
      return convert(fmt::format("M.from_pretrained('{}', gguf_file='{}')", folder,
                                 file.path.filename().string()),
                     folder);
    case Kind::OtherName:
      return "Rename a whole file to model.safetensors; shards need model.safetensors.index.json. "
             "Files called consolidated have other names inside: use the model's Hugging Face "
             "folder. --fresh starts from fresh weights.";
    case Kind::OtherFramework:
      return convert(fmt::format("M.from_pretrained('{}', from_{}=True)", folder,
                                 file.path.extension() == ".h5" ? "tf" : "flax"),
                     folder);
    case Kind::Ours:
    case Kind::Pickle:
      break;
  }
  return convert(fmt::format("M.from_pretrained('{}')", folder), folder);
}

bool holds_folder_weights(const std::vector<WeightFile>& files) {
  return !files.empty() && files.front().kind == Kind::Ours;
}

/// Refuses weights that would be passed over. An adapter belongs onto weights beside it, too.
void require_readable(const std::vector<WeightFile>& files, const std::string& folder) {
  const auto adapter = std::find_if(files.begin(), files.end(), [](const WeightFile& file) {
    return file.kind == Kind::Adapter;
  });
  if (holds_folder_weights(files) && adapter == files.end()) return;
  if (files.empty()) return;
  const WeightFile& file = adapter != files.end() ? *adapter : files.front();
  throw InputError(file.path.string(), fmt::format("is {}", what_it_is(file.kind)),
                   way_out(file, folder));
}

void require_no_weights(const fs::path& config) {
  const fs::path folder = config.has_parent_path() ? config.parent_path() : fs::path(".");
  const std::vector<WeightFile> files = weights_in(folder);
  if (files.empty()) return;
  throw InputError(config.string(),
                   fmt::format("lies beside {}, which a run from this file alone would not use",
                               files.front().path.filename().string()),
                   fmt::format("Name the folder, '{}', to start from its weights. --fresh starts "
                               "from fresh ones.",
                               folder.string()));
}

Architecture trainable_architecture(const std::string& model, Blocks blocks) {
  Architecture architecture = load_architecture(model);
  require_units(architecture);
  return architecture.language_model ? with_blocks(architecture, blocks) : architecture;
}

/// A traced model starts from weights alone: how fresh ones are drawn is known to transformers.
ModelSource open_traced(const std::string& folder, Weights wanted) {
  if (wanted == Weights::Fresh || !holds_folder_weights(weights_in(folder))) {
    throw InputError(folder, "is a traced model, and athanor cannot draw fresh weights for it",
                     "Make them: python3 -c \"from transformers import AutoConfig as C, "
                     "AutoModelForCausalLM as M; M.from_config(C.from_pretrained('FOLDER'))"
                     ".save_pretrained('NEW')\", and trace NEW.");
  }
  auto weights = std::make_shared<const HfFolder>(folder);
  return {weights->architecture(), weights};
}

}  // namespace

ModelSource open_model(const std::string& model, Weights wanted, Blocks blocks) {
  if (is_traced_folder(model)) return open_traced(model, wanted);
  if (wanted == Weights::Fresh) return {trainable_architecture(model, blocks), nullptr};
  std::error_code unknown;
  if (fs::is_directory(model, unknown)) {
    const std::vector<WeightFile> files = weights_in(model);
    require_readable(files, model);
    if (holds_folder_weights(files)) {
      auto weights = std::make_shared<const HfFolder>(model, blocks);
      return {weights->architecture(), weights};
    }
  } else if (fs::is_regular_file(model, unknown)) {
    if (const auto kind = kind_of(model)) {
      throw InputError(model, fmt::format("is {}", what_it_is(*kind)),
                       "Name the folder that holds it and config.json.");
    }
    require_no_weights(model);
  }
  return {trainable_architecture(model, blocks), nullptr};
}

}  // namespace athanor
