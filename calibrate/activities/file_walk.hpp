// SPDX-License-Identifier: Apache-2.0
// Reads and writes that reach the device, by the executor's own files.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <memory>
#include <string>

namespace athanor {

class ScratchFile;

/// A file of random data that activities go through piece by piece, and then again from its start:
/// a step, too, comes back to a place only after all others, so no cache below the file system may
/// hold just that place.
class RotatingFile {
 public:
  /// Writes the whole file. Throws Error, which names the folder.
  RotatingFile(const std::string& folder, Bytes file_bytes);
  /// Whether the file goes past the page cache.
  [[nodiscard]] bool direct() const noexcept;
  /// Reads (NvmeRead) or writes (NvmeWrite) the next `bytes`, at most the file's.
  [[nodiscard]] Activity activity(Lane lane, Bytes bytes) const;

 private:
  std::shared_ptr<const ScratchFile> file_;
  Bytes file_bytes_;
};

}  // namespace athanor
