// SPDX-License-Identifier: Apache-2.0
// Whole text files, read with a limit and replaced atomically.
#pragma once

#include "sim/base/quantities.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// Limit of documents that a person could read: plans, profiles, configurations, results.
inline constexpr Bytes kMaxDocument = 64 * kMiB;

/// Reads a whole file as text. Throws InputError when it cannot be read, is no regular file,
/// exceeds `limit` or begins with bytes that are no text.
[[nodiscard]] std::string read_text_file(const std::string& path, Bytes limit = kGiB);

/// Writes through a temporary name in the same folder, fsync and rename, so that a reader sees the
/// old file or the new one whole. Throws Error that names the path and the system's reason.
void write_file_atomically(const std::string& path, std::string_view content);

/// Whether a file called `name` is what a killed write_file_atomically() left of `target`, a name
/// in the same folder.
[[nodiscard]] bool is_left_over_from(const std::string& target, const std::string& name);

}  // namespace athanor
