// SPDX-License-Identifier: Apache-2.0
// Reads and writes that reach the storage device, by the executor's own files.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <memory>
#include <string>

namespace athanor {

class ScratchFile;

/// A file of random data that activities go through piece by piece, and then again from its start.
/// A training step, too, comes back to a piece only after all others. So a cache below the file
/// system must not hold just the piece that is measured.
class RotatingFile {
 public:
  /// Writes the whole file. Throws Error that names the folder.
  RotatingFile(const std::string& folder, Bytes file_bytes);
  /// Returns whether reads and writes bypass the page cache.
  [[nodiscard]] bool direct() const noexcept;
  /// Returns an activity that reads (NvmeRead) or writes (NvmeWrite) the next `bytes`, which are at
  /// most the file's.
  [[nodiscard]] Activity activity(Lane lane, Bytes bytes) const;

 private:
  std::shared_ptr<const ScratchFile> file_;
  Bytes file_bytes_;
};

}  // namespace athanor
