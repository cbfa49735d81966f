// SPDX-License-Identifier: Apache-2.0
// A folder that is there whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace athanor {

/// A new folder that disappears unless it is published. While it lives it is locked, so that the
/// next process can tell what a killed one left.
class StagingFolder {
 public:
  /// Makes a folder beside `target`, hence on the same file system. Throws InputError when `target`
  /// cannot become this folder (check_export_folder), Error with the system's reason.
  explicit StagingFolder(const std::filesystem::path& target);
  ~StagingFolder();
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string target() const { return target_.string(); }
  /// Renames the folder to `target`.
  void publish();

 private:
  std::filesystem::path target_, path_;
  int lock_ = -1;
};

/// Throws InputError, which names `option`, unless a folder can be put at `target`: it does not
/// exist, or is an empty folder that is neither a link nor a mount point.
void check_export_folder(const std::string& option, const std::filesystem::path& target);

/// Makes sure that a staging folder for `target` can be made, and removes those that killed
/// processes left for it. Throws like StagingFolder.
void prepare_export_folder(const std::filesystem::path& target);

}  // namespace athanor
