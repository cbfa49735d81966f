// SPDX-License-Identifier: Apache-2.0
// Files that may be compressed, read as a stream.
#pragma once

#include <istream>
#include <memory>
#include <string>

namespace athanor::cli {

/// Opens `path`, which may be gzip or plain, and inflates it while it is read. Throws InputError
/// when it cannot be opened. Reading throws InputError, through the stream's buffer, where the file
/// is truncated or is no gzip.
[[nodiscard]] std::unique_ptr<std::istream> open_maybe_gzip(const std::string& path);

}  // namespace athanor::cli
