// SPDX-License-Identifier: Apache-2.0
// Files that are often given in place of others, known by their first bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace athanor {

struct FileKind {
  std::string_view name;  ///< "a gzip file"
  std::string_view hint;  ///< the way to what was meant
};

/// Returns the kind of a file that begins with `bytes` (at least 64 of them where it has as many);
/// nothing where no known signature is there.
[[nodiscard]] std::optional<FileKind> file_kind(std::string_view bytes) noexcept;

/// Throws InputError where the bytes are those of a git-LFS pointer or of a web page, which stand
/// in the place of files that were not fetched.
void require_fetched(std::string_view bytes, const std::string& path);

}  // namespace athanor
