// SPDX-License-Identifier: Apache-2.0
// Where the figures of a file come from.
#pragma once

#include <map>
#include <string>

namespace athanor {

/// How a file's figures were obtained.
enum class Source { Measured, DataSheet, Scaled, Synthetic };

struct Provenance {
  Source source = Source::Synthetic;
  std::string date;                             ///< ISO 8601 day
  std::string command;                          ///< what produced the file
  std::map<std::string, std::string> versions;  ///< athanor, compiler, LibTorch, MPI, driver ..
  std::string notes;
};

}  // namespace athanor
