// SPDX-License-Identifier: Apache-2.0
// Writes event files of TensorBoard: framed records, each a protocol buffer `Event` (tsl's
// record_writer.cc and tensorboard/compat/proto/event.proto).
#pragma once

#include "sim/base/file_descriptor.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace athanor {

/// A number of one step under the name of its chart.
struct NamedNumber {
  std::string name;
  double value = 0;
};

class TensorboardLog {
 public:
  /// Opens a new event file in `folder`, which is made if it is missing, and has TensorBoard forget
  /// the steps behind `resumed_step` of the folder's older files. Throws Error when the file cannot
  /// be written.
  TensorboardLog(const std::string& folder, std::int64_t resumed_step);

  /// Appends the numbers of `step`; other processes see them when this returns. Throws Error on a
  /// full disk.
  void write(std::int64_t step, std::span<const NamedNumber> numbers);

 private:
  void append(const std::string& event);

  std::string path_;
  FileDescriptor file_;
};

}  // namespace athanor
