// SPDX-License-Identifier: Apache-2.0
// Writes Hugging Face model folders: config.json with model.safetensors, whole or in shards.
#pragma once

#include "executor/io/export_record.hpp"
#include "executor/io/export_source.hpp"
#include "executor/io/safetensors_writer.hpp"
#include "executor/io/staging_folder.hpp"
#include "sim/model/architecture.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Writes a model folder, unit after unit, under a temporary name. finish() renames it, so the
/// folder is there whole or not at all.
class HfFolderWriter {
 public:
  static constexpr Bytes kMaxShardBytes = 5'000'000'000;

  /// Writes config.json and copies the source's other files. Throws InputError when `folder` exists
  /// and is not an empty folder, Error when it cannot be written. Weights go into one file when
  /// they fit in `max_shard_bytes`.
  HfFolderWriter(const std::string& folder, const Architecture& architecture, DataType dtype,
                 const ExportSource& source = {}, Bytes max_shard_bytes = kMaxShardBytes);
  /// Writes the next unit's flat fp32 storage; `unit` counts up from 0.
  void write_unit(int unit, std::span<const float> flat);
  /// Completes the folder. Throws Error unless every unit was written. `record`, whose `shards`
  /// are filled in here, goes into the folder, too.
  void finish(std::optional<ExportRecord> record = std::nullopt);

 private:
  struct Shard {
    std::string file_name;
    std::vector<TensorEntry> tensors;
  };
  [[nodiscard]] static std::vector<Shard> make_shards(const Architecture& architecture,
                                                      DataType dtype, Bytes max_shard_bytes);
  void write_index() const;
  void write_record(ExportRecord record) const;
  /// Closes the current file and opens the next.
  void advance_shard();

  StagingFolder folder_;  ///< outlives the current file
  Architecture architecture_;
  std::vector<Shard> shards_;
  std::unique_ptr<SafetensorsWriter> writer_;
  std::size_t next_shard_ = 0;
  std::size_t left_in_shard_ = 0;
  int next_unit_ = 0;
};

}  // namespace athanor
