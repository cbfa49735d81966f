// SPDX-License-Identifier: Apache-2.0
// Kind of file system on which a folder lies, by which figures of one are not taken for another's.
#pragma once

#include "sim/model/platform.hpp"

#include <optional>
#include <string>

namespace athanor {

/// Returns the kind of the file system of `folder`; nothing where the system does not tell.
[[nodiscard]] std::optional<FileSystem> file_system_of(const std::string& folder);

/// Describes it for messages: "ext4 on an NVMe disk".
[[nodiscard]] std::string describe(const FileSystem& system);

/// Returns a sentence where `folder`, that of --nvme, is on another kind of file system than the
/// one that was measured; empty where it is not, or where either is unknown.
[[nodiscard]] std::string remark_on_other_file_system(const std::string& folder,
                                                      const std::optional<FileSystem>& measured);

}  // namespace athanor
