// SPDX-License-Identifier: Apache-2.0
// Whole text files, read with a limit and replaced atomically.
#pragma once

#include "sim/base/quantities.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// Reads a whole file as text. Throws InputError when it cannot be read or exceeds `limit`.
[[nodiscard]] std::string read_text_file(const std::string& path, Bytes limit = kGiB);

/// Writes through a temporary name in the same folder, fsync and rename, so that a reader sees the
/// old file or the new one whole. Throws Error that names the path and the system's reason.
void write_file_atomically(const std::string& path, std::string_view content);

}  // namespace athanor
