// SPDX-License-Identifier: Apache-2.0
// `athanor clean`: frees the memory that killed runs have left.
#pragma once

namespace athanor::cli {

/// Parses the arguments, of which the first is the program's name, and frees the memory. Returns an
/// exit code.
[[nodiscard]] int clean(int argc, char** argv);

}  // namespace athanor::cli
