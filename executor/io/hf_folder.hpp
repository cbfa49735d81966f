// SPDX-License-Identifier: Apache-2.0
// Hugging Face model folders: config.json with model.safetensors, whole or in shards.
#pragma once

#include "executor/io/safetensors.hpp"
#include "sim/model/architecture.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// A folder to load weights from. Opening validates it whole: every parameter is there, once, with
/// the architecture's shape and a type that widens to fp32, and nothing unknown is. Throws
/// InputError (file:tensor, problem, way out).
class HfFolder {
 public:
  explicit HfFolder(const std::string& folder);

  [[nodiscard]] const Architecture& architecture() const noexcept { return architecture_; }
  /// Writes the parameters of unit `unit` into its flat fp32 storage (see chunk_layout.hpp);
  /// padding is zero. Thread-safe.
  void read_unit(int unit, std::span<float> flat) const;

 private:
  struct Source {
    const SafetensorsReader* file;
    const TensorEntry* tensor;
  };
  Architecture architecture_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::vector<std::vector<Source>> sources_;  ///< per unit and parameter
};

/// A folder that disappears unless it is published.
class TemporaryFolder {
 public:
  /// Makes a folder beside `target`, hence on its file system. Throws InputError when `target`
  /// exists and is not an empty folder, Error with the system's reason.
  explicit TemporaryFolder(std::filesystem::path target);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string target() const { return target_.string(); }
  /// Renames it to `target`.
  void publish();

 private:
  std::filesystem::path target_, path_;
};

/// Writes such a folder, unit after unit, under a temporary name beside it; finish() renames it, so
/// the folder is there whole or not at all.
class HfFolderWriter {
 public:
  static constexpr Bytes kMaxShardBytes = 5'000'000'000;

  /// Throws InputError when `folder` exists and is not an empty folder, Error when it cannot be
  /// written. Weights go into one file when they fit in `max_shard_bytes`.
  HfFolderWriter(const std::string& folder, const Architecture& architecture, DataType dtype,
                 Bytes max_shard_bytes = kMaxShardBytes);
  /// The next unit's flat fp32 storage; `unit` counts up from 0.
  void write_unit(int unit, std::span<const float> flat);
  void finish();

 private:
  struct Shard {
    std::string file_name;
    std::vector<TensorEntry> tensors;
  };
  [[nodiscard]] static std::vector<Shard> make_shards(const Architecture& architecture,
                                                      DataType dtype, Bytes max_shard_bytes);
  void write_index() const;
  /// Closes the file that is being written and opens the next.
  void advance_shard();

  TemporaryFolder folder_;  ///< outlives the file that is being written
  Architecture architecture_;
  std::vector<Shard> shards_;
  std::unique_ptr<SafetensorsWriter> writer_;
  std::size_t next_shard_ = 0;
  std::size_t left_in_shard_ = 0;
  int next_unit_ = 0;
};

}  // namespace athanor
