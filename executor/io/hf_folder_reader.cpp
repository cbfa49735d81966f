// SPDX-License-Identifier: Apache-2.0
#include "executor/io/hf_folder_reader.hpp"

#include "executor/io/mapped_file.hpp"
#include "executor/io/weight_files.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/formats/traced_model.hpp"
#include "sim/model/chunk_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace athanor {

namespace {

namespace fs = std::filesystem;

/// Reads the file names of an index. Throws when one leads out of the folder.
std::set<std::string> shard_names(const fs::path& index) {
  const std::string text = read_text_file(index.string(), kMaxDocument);
  const nlohmann::json document = parse_json(text, index.string());
  JsonReader json(document, ValuePath(index.string()));
  JsonReader weight_map = json.key("weight_map");
  std::set<std::string> names;
  for (const std::string& tensor : weight_map.keys()) {
    const JsonReader entry = weight_map.key(tensor);
    const std::string name = entry.string();
    if (name.empty() || fs::path(name).filename() != fs::path(name)) {
      entry.reject("'" + name + "' is no file name", "Shards lie in the index's own folder.");
    }
    names.insert(name);
  }
  return names;
}

std::vector<std::string> weight_files(const fs::path& folder) {
  if (is_there(folder / kWeightFile)) return {(folder / kWeightFile).string()};
  if (!is_there(folder / kWeightIndex)) {
    throw InputError(folder.string(),
                     fmt::format("has neither {} nor {}", kWeightFile, kWeightIndex),
                     "Save the model with save_pretrained(folder, safe_serialization=True).");
  }
  std::vector<std::string> files;
  for (const std::string& name : shard_names(folder / kWeightIndex)) {
    files.push_back((folder / name).string());
  }
  return files;
}

/// Differences that a checkpoint's names may have from the architecture's.
struct NameRules {
  std::string base_prefix;  ///< left out by a checkpoint of the model without its head
  std::function<bool(std::string_view name)> is_harmless;  ///< it may carry what is not needed
};

NameRules rules_of(const LanguageModelConfig& config) {
  const auto is_harmless = [tied = config.tie_word_embeddings](std::string_view name) {
    if (name == "lm_head.weight") return tied;
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
           name.ends_with(".rotary_emb.inv_freq");
  };
  return {config.model_type == "gpt2" ? "transformer." : "model.", is_harmless};
}

/// The bare encoder's checkpoint has a pooler, which no classifier reads.
NameRules rules_of(const ImageClassifierConfig& config) {
  const std::string prefix = config.model_type + ".";
  return {prefix, [prefix](std::string_view name) {
            return name.starts_with("pooler.") || name.starts_with(prefix + "pooler.");
          }};
}

NameRules rules_of(const TracedFolder& folder) {
  return {folder.base_prefix, [ignored = folder.ignored_tensors](std::string_view name) {
            return ignored.contains(std::string(name)) || name.ends_with(".rotary_emb.inv_freq");
          }};
}

struct Found {
  const SafetensorsReader* file = nullptr;
  const TensorEntry* tensor = nullptr;
};
using Checkpoint = std::map<std::string, Found, std::less<>>;

/// Leaves out what torch.compile, DistributedDataParallel and checkpointing put into names.
std::string plain_name(std::string name) {
  for (const std::string_view wrapper :
       {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."}) {
    for (auto at = name.find(wrapper); at != std::string::npos; at = name.find(wrapper)) {
      name.erase(at, wrapper.size());
    }
  }
  if (name.starts_with("module.")) name.erase(0, std::string_view("module.").size());
  return name;
}

constexpr const char* kBlocks = "_blocks";
constexpr const char* kScales = "_scales";

/// Finds a tensor by its name, or by that without the model's prefix.
Checkpoint::iterator find(Checkpoint& checkpoint, const std::string& name,
                          std::string_view prefix) {
  const auto entry = checkpoint.find(name);
  if (entry != checkpoint.end() || !name.starts_with(prefix)) return entry;
  return checkpoint.find(std::string_view(name).substr(prefix.size()));
}

Checkpoint all_tensors(const std::vector<std::unique_ptr<SafetensorsReader>>& files) {
  Checkpoint checkpoint;
  for (const auto& file : files) {
    for (const TensorEntry& tensor : file->header().tensors) {
      const auto [entry, is_new] =
          checkpoint.try_emplace(plain_name(tensor.name), Found{file.get(), &tensor});
      if (!is_new) {
        throw InputError(file->path() + ":" + tensor.name,
                         "is also in " + entry->second.file->path(),
                         "Keep the tensor in one file.");
      }
    }
  }
  return checkpoint;
}

void check_shape(const Found& found, const std::vector<std::int64_t>& shape) {
  if (found.tensor->shape == shape) return;
  throw InputError(found.file->path() + ":" + found.tensor->name,
                   fmt::format("has shape [{}], config.json asks for [{}]",
                               fmt::join(found.tensor->shape, ", "), fmt::join(shape, ", ")),
                   "Use the config.json that belongs to the weights.");
}

void check(const Found& found, const Parameter& parameter) {
  check_shape(found, parameter.shape);
  if (!widens_to_float(found.tensor->type)) {
    throw InputError(found.file->path() + ":" + found.tensor->name,
                     fmt::format("has type {}", name_of(found.tensor->type)),
                     "Save the model in F32, F16 or BF16.");
  }
}

/// Throws InputError where a weight is not finite: training would fail later, and name other
/// causes.
void require_finite(std::span<const float> weights, const SafetensorsReader& file,
                    const TensorEntry& tensor) {
  const auto bad = std::find_if(weights.begin(), weights.end(),
                                [](float weight) { return !std::isfinite(weight); });
  if (bad == weights.end()) return;
  throw InputError(file.path() + ":" + tensor.name,
                   fmt::format("element {} is {}", bad - weights.begin(), *bad),
                   "The weights are damaged: use an earlier checkpoint of the model.");
}

/// Takes the tensor `name` out of the checkpoint.
Found take(Checkpoint& checkpoint, const std::string& name, std::string_view prefix,
           const std::string& folder) {
  const auto entry = find(checkpoint, name, prefix);
  if (entry == checkpoint.end()) {
    throw InputError(folder + ":" + name, "this tensor is missing from the weights",
                     "Use the config.json that belongs to the weights.");
  }
  const Found found = entry->second;
  checkpoint.erase(entry);
  return found;
}

/// Takes the two tensors that MXFP4 makes of a stack [experts, in, outputs]: blocks along the
/// inputs, and their scales.
std::pair<Found, Found> take_mxfp4(Checkpoint& checkpoint, const Parameter& stack,
                                   std::string_view prefix, const std::string& folder) {
  const Found blocks = take(checkpoint, stack.name + kBlocks, prefix, folder);
  const Found scales = take(checkpoint, stack.name + kScales, prefix, folder);
  const std::int64_t experts = stack.shape[0], in = stack.shape[1], outputs = stack.shape[2];
  check_shape(blocks, {experts, outputs, in / kMxfp4Block, kMxfp4Block / 2});
  check_shape(scales, {experts, outputs, in / kMxfp4Block});
  for (const Found& found : {blocks, scales}) {
    if (found.tensor->type == TensorType::U8) continue;
    throw InputError(found.file->path() + ":" + found.tensor->name,
                     fmt::format("has type {}", name_of(found.tensor->type)),
                     "MXFP4 has bytes, U8: use the folder as it was published.");
  }
  return {blocks, scales};
}

bool has_mxfp4(Checkpoint& checkpoint, const StoredTensor& stored, std::string_view prefix) {
  const std::vector<std::int64_t>& shape = stored.tensor.shape;
  return stored.layers_in_turns > 0 && shape.size() == 3 && shape[1] % kMxfp4Block == 0 &&
         find(checkpoint, stored.tensor.name + kBlocks, prefix) != checkpoint.end();
}

std::vector<std::byte> bytes_of(const SafetensorsReader& file, const TensorEntry& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  file.read_bytes(tensor, 0, bytes);
  return bytes;
}

void require_harmless(const Checkpoint& rest, const NameRules& rules) {
  for (const auto& [name, found] : rest) {
    if (!rules.is_harmless(name)) {
      throw InputError(found.file->path() + ":" + name, "this tensor is unknown to the model",
                       "Use the config.json that belongs to the weights.");
    }
  }
}

bool equal_bytes(const Found& a, const Found& b) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  const auto total = static_cast<std::size_t>(a.tensor->bytes());
  std::vector<std::byte> of_a, of_b;
  for (std::size_t at = 0; at < total; at += kBlock) {
    of_a.resize(std::min(kBlock, total - at));
    of_b.resize(of_a.size());
    a.file->read_bytes(*a.tensor, at, of_a);
    b.file->read_bytes(*b.tensor, at, of_b);
    if (of_a != of_b) return false;
  }
  return true;
}

/// Refuses a head that is not what it is tied to. transformers 4 drops such a head, and 5 keeps it
/// and unties the model: either would be a guess.
void require_same_head(const Checkpoint& rest, const Found& embedding) {
  const auto entry = rest.find("lm_head.weight");
  if (entry == rest.end()) return;
  const Found& head = entry->second;
  check_shape(head, embedding.tensor->shape);
  if (head.tensor->type == embedding.tensor->type && equal_bytes(head, embedding)) return;
  throw InputError(head.file->path() + ":" + head.tensor->name,
                   "is not the embedding " + embedding.tensor->name +
                       ", though config.json says tie_word_embeddings",
                   "Set tie_word_embeddings to false to keep this head, or leave the tensor out of "
                   "the file to use the embedding.");
}

}  // namespace

HfFolder::HfFolder(const std::string& folder, Blocks blocks)
    : architecture_(load_architecture(folder)) {
  require_units(architecture_);
  if (architecture_.language_model) architecture_ = with_blocks(architecture_, blocks);
  for (const std::string& path : weight_files(folder)) {
    files_.push_back(std::make_unique<SafetensorsReader>(path));
  }
  const NameRules rules = architecture_.traced ? rules_of(read_traced_folder(folder))
                          : architecture_.image_classifier
                              ? rules_of(*architecture_.image_classifier)
                              : rules_of(architecture_.language_model.value());
  Checkpoint checkpoint = all_tensors(files_);
  for (const Unit& unit : architecture_.units) {
    std::vector<Source>& sources = sources_.emplace_back();
    for (StoredTensor& stored : stored_tensors(architecture_, unit)) {
      if (has_mxfp4(checkpoint, stored, rules.base_prefix)) {
        const auto [packed, scales] =
            take_mxfp4(checkpoint, stored.tensor, rules.base_prefix, folder);
        stored.outputs_first = true;
        sources.push_back(
            {packed.file, packed.tensor, std::move(stored), scales.file, scales.tensor});
        continue;
      }
      const Found found = take(checkpoint, stored.tensor.name, rules.base_prefix, folder);
      check(found, stored.tensor);
      sources.push_back({found.file, found.tensor, std::move(stored)});
    }
  }
  require_harmless(checkpoint, rules);
  if (architecture_.language_model && architecture_.language_model->tie_word_embeddings) {
    const Source& tokens = sources_.front().front();
    require_same_head(checkpoint, {tokens.file, tokens.tensor});
  }
}

void HfFolder::read_unit(int unit, std::span<float> flat) const {
  const Unit& description = architecture_.units.at(static_cast<std::size_t>(unit));
  std::int64_t used = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(description, used);
  if (static_cast<std::int64_t>(flat.size()) < used) {
    throw Error(
        fmt::format("{}: {} elements of storage for {}", description.name, flat.size(), used));
  }
  std::fill(flat.begin(), flat.end(), 0.0F);
  for (const Source& source : sources_[static_cast<std::size_t>(unit)]) {
    std::vector<float> weights(static_cast<std::size_t>(source.stored.tensor.num_elements()));
    if (source.scales == nullptr) {
      source.file->read(*source.tensor, weights);
    } else {
      widen_mxfp4(bytes_of(*source.file, *source.tensor),
                  bytes_of(*source.scale_file, *source.scales), weights);
    }
    require_finite(weights, *source.file, *source.tensor);
    std::vector<std::span<float>> parameters;
    for (std::size_t i = source.stored.first; i < source.stored.first + source.stored.count; ++i) {
      parameters.push_back(
          flat.subspan(static_cast<std::size_t>(offsets[i]),
                       static_cast<std::size_t>(description.parameters[i].num_elements())));
    }
    take_apart(source.stored, description, weights, parameters);
  }
}

}  // namespace athanor
