// SPDX-License-Identifier: Apache-2.0
// The files that `--data` names.
#pragma once

#include <string>
#include <vector>

namespace athanor {

/// Returns the files of names and patterns (*, ? and [..]) in the order of the arguments; those of
/// a pattern are sorted by name, with numbers in the order of their values. A Megatron pair counts
/// once. Throws InputError where a pattern matches nothing.
[[nodiscard]] std::vector<std::string> expand_data(const std::vector<std::string>& names);

}  // namespace athanor
