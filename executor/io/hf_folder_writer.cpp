// SPDX-License-Identifier: Apache-2.0
#include "executor/io/hf_folder_writer.hpp"

#include "executor/io/stored_tensors.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/model/chunk_layout.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <utility>

namespace athanor {

namespace {

/// Returns the values of a stored tensor: in place, or put together in `joined`.
std::span<const float> values_of(const StoredTensor& stored, const Unit& unit,
                                 const std::vector<std::int64_t>& offsets,
                                 std::span<const float> flat, std::vector<float>& joined) {
  const auto values = [&](std::size_t i) {
    return flat.subspan(static_cast<std::size_t>(offsets[i]),
                        static_cast<std::size_t>(unit.parameters[i].num_elements()));
  };
  if (stored.count == 1 && stored.layers_in_turns == 0) return values(stored.first);
  std::vector<std::span<const float>> parameters;
  std::size_t elements = 0;
  for (std::size_t i = stored.first; i < stored.first + stored.count; ++i) {
    parameters.push_back(values(i));
    elements += parameters.back().size();
  }
  joined.resize(elements);
  put_together(stored, unit, parameters, joined);
  return joined;
}

}  // namespace

HfFolderWriter::HfFolderWriter(const std::string& folder, const Architecture& architecture,
                               DataType dtype, const ExportSource& source, Bytes max_shard_bytes)
    : folder_(folder),
      architecture_(architecture),
      shards_(make_shards(architecture, dtype, max_shard_bytes)) {
  write_file_atomically((folder_.path() / "config.json").string(),
                        exported_config(source, architecture, dtype));
  copy_companions(source, folder_.path());
}

std::vector<HfFolderWriter::Shard> HfFolderWriter::make_shards(const Architecture& architecture,
                                                               DataType dtype,
                                                               Bytes max_shard_bytes) {
  std::vector<Shard> shards(1);
  Bytes bytes = 0;
  for (const Unit& unit : architecture.units) {
    for (const StoredTensor& stored : stored_tensors(architecture, unit)) {
      const TensorEntry tensor{stored.tensor.name, tensor_type(dtype), stored.tensor.shape, 0};
      if (bytes > 0 && bytes + tensor.bytes() > max_shard_bytes) {
        shards.emplace_back();
        bytes = 0;
      }
      shards.back().tensors.push_back(tensor);
      bytes += tensor.bytes();
    }
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].file_name =
        shards.size() == 1 ? "model.safetensors"
                           : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

void HfFolderWriter::write_unit(int unit, std::span<const float> flat) {
  if (unit != next_unit_) {
    throw Error(
        fmt::format("{}: unit {} written, expected {}", folder_.target(), unit, next_unit_));
  }
  const Unit& description = architecture_.units.at(static_cast<std::size_t>(unit));
  std::int64_t used = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(description, used);
  std::vector<float> joined;
  for (const StoredTensor& stored : stored_tensors(architecture_, description)) {
    if (left_in_shard_ == 0) advance_shard();
    writer_->write(stored.tensor.name, values_of(stored, description, offsets, flat, joined));
    --left_in_shard_;
  }
  ++next_unit_;
}

void HfFolderWriter::advance_shard() {
  if (writer_) writer_->finish();
  const Shard& shard = shards_.at(next_shard_++);
  // `transformers` refuses a file that does not name its framework.
  writer_ = std::make_unique<SafetensorsWriter>(
      (folder_.path() / shard.file_name).string(), shard.tensors,
      std::map<std::string, std::string>{{"format", "pt"}});
  left_in_shard_ = shard.tensors.size();
}

void HfFolderWriter::write_index() const {
  nlohmann::ordered_json json;
  Bytes total = 0;
  nlohmann::json weight_map = nlohmann::json::object();
  for (const Shard& shard : shards_) {
    for (const TensorEntry& tensor : shard.tensors) {
      total += tensor.bytes();
      weight_map[tensor.name] = shard.file_name;
    }
  }
  json["metadata"] = {{"total_size", total}};
  json["weight_map"] = weight_map;
  write_file_atomically((folder_.path() / "model.safetensors.index.json").string(),
                        json.dump(2) + "\n");
}

void HfFolderWriter::write_record(ExportRecord record) const {
  for (const Shard& shard : shards_) {
    record.shards[shard.file_name] =
        static_cast<Bytes>(std::filesystem::file_size(folder_.path() / shard.file_name));
  }
  write_file_atomically((folder_.path() / kExportRecord).string(), to_json(record));
}

void HfFolderWriter::finish(std::optional<ExportRecord> record) {
  if (next_unit_ != static_cast<int>(architecture_.units.size())) {
    throw Error(fmt::format("{}: {} of {} units were written", folder_.target(), next_unit_,
                            architecture_.units.size()));
  }
  if (writer_) writer_->finish();
  writer_.reset();
  if (shards_.size() > 1) write_index();
  if (record) write_record(std::move(*record));
  folder_.publish();
}

}  // namespace athanor
