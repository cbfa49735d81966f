// SPDX-License-Identifier: Apache-2.0
// Writes Hugging Face model folders: config.json with model.safetensors, whole or in shards.
#pragma once

#include "executor/io/safetensors_writer.hpp"
#include "sim/model/architecture.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// A new folder that disappears unless it is published.
class StagingFolder {
 public:
  /// Makes a folder beside `target`, hence on the same file system. Throws InputError when `target`
  /// exists and is not an empty folder, Error with the system's reason.
  explicit StagingFolder(std::filesystem::path target);
  ~StagingFolder();
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string target() const { return target_.string(); }
  /// Renames the folder to `target`.
  void publish();

 private:
  std::filesystem::path target_, path_;
};

/// Writes a model folder, unit after unit, under a temporary name. finish() renames it, so the
/// folder is there whole or not at all.
class HfFolderWriter {
 public:
  static constexpr Bytes kMaxShardBytes = 5'000'000'000;

  /// Throws InputError when `folder` exists and is not an empty folder, Error when it cannot be
  /// written. Weights go into one file when they fit in `max_shard_bytes`.
  HfFolderWriter(const std::string& folder, const Architecture& architecture, DataType dtype,
                 Bytes max_shard_bytes = kMaxShardBytes);
  /// Writes the next unit's flat fp32 storage; `unit` counts up from 0.
  void write_unit(int unit, std::span<const float> flat);
  /// Completes the folder. Throws Error unless every unit was written.
  void finish();

 private:
  struct Shard {
    std::string file_name;
    std::vector<TensorEntry> tensors;
  };
  [[nodiscard]] static std::vector<Shard> make_shards(const Architecture& architecture,
                                                      DataType dtype, Bytes max_shard_bytes);
  void write_index() const;
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
