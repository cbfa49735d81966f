// SPDX-License-Identifier: Apache-2.0
// A text file that grows by lines for hours, while other programs may do anything to it.
#pragma once

#include "sim/base/file_descriptor.hpp"

#include <sys/stat.h>

#include <string>
#include <string_view>

namespace athanor {

/// Appends lines to a file. Where it is removed or replaced meanwhile, lines do not vanish with it.
class LineLog {
 public:
  /// Opens a file that is there. Throws Error when it cannot be written.
  explicit LineLog(std::string path);

  /// Appends a line; other processes see it when this returns. Returns a remark for the user, or
  /// nothing: a file that was removed is made again with all its lines, and one that was replaced
  /// is gone on with. Throws Error on a full disk.
  [[nodiscard]] std::string append(std::string_view line);

 private:
  [[nodiscard]] bool is_in_place() const;
  [[nodiscard]] std::string open_again();

  std::string path_;
  FileDescriptor file_;
  struct stat opened_{};  ///< the file that is open
  bool is_lost_ = false;  ///< it cannot be opened again, and that was said
};

}  // namespace athanor
