// SPDX-License-Identifier: Apache-2.0
// Opens the files that a user names. Every reader of the project opens them here.
#pragma once

#include "sim/base/file_descriptor.hpp"
#include "sim/base/quantities.hpp"

#include <string>

namespace athanor {

/// An open file and its size when it was opened.
struct InputFile {
  FileDescriptor descriptor;
  Bytes size = 0;
};

/// Opens `path` for reading, and never waits. Throws InputError when it cannot be opened, and for
/// anything but a regular file: a folder, a pipe (which would wait for its writer), a socket or a
/// device (which may have no end).
[[nodiscard]] InputFile open_input(const std::string& path);

/// Throws InputError that names `path` and what a failed read or open of it left in errno.
[[noreturn]] void fail_read(const std::string& path, int error);

}  // namespace athanor
