// SPDX-License-Identifier: Apache-2.0
// Provenance: where the figures of a file come from.
#pragma once

#include <map>
#include <string>

namespace athanor {

/// Ways to obtain the figures of a file.
enum class Source { Measured, DataSheet, Scaled, Synthetic };

/// Origin of a file's figures.
struct Provenance {
  Source source = Source::Synthetic;
  std::string date;                             ///< ISO 8601 day
  std::string command;                          ///< command that produced the file
  std::map<std::string, std::string> versions;  ///< athanor, compiler, LibTorch, MPI, driver ..
  std::string notes;
};

}  // namespace athanor
