// SPDX-License-Identifier: Apache-2.0
// Checks of the places where a program will write, before it works for what it will write there.
#pragma once

#include "sim/base/quantities.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace athanor {

/// Returns `path` itself, or the first folder above it that exists.
[[nodiscard]] std::filesystem::path nearest_existing(const std::filesystem::path& path);

/// Throws InputError, which names `option`, where no folder can be made at `path`.
void check_folder_can_be_made(const std::string& option, const std::string& path);

/// Something that will take room on a disk.
struct DiskNeed {
  std::string option;  ///< names the place, such as --export
  std::filesystem::path path;
  std::string purpose;  ///< such as "the exported weights"
  Bytes bytes = 0;
};
/// Throws InputError, with `hint`, where a file system has too little room for all that goes there.
void check_room(const std::vector<DiskNeed>& needs, const std::string& hint);

/// Makes renames and new files in `folder` durable. Throws Error.
void sync_folder(const std::string& folder);

}  // namespace athanor
