// SPDX-License-Identifier: Apache-2.0
// Platforms and profiles that an installation brings, so that a name stands for a file.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace athanor::cli {

enum class Shipped { Platforms, Profiles };

/// Returns the names that the installation of this program brings, sorted; none in a build.
[[nodiscard]] std::vector<std::string> shipped_names(Shipped kind);

/// Returns the path that a user means: that of a file if there is one, else that of the shipped
/// file of this name. Throws InputError that lists the names for a word that is neither. Where
/// nothing is shipped, the text is the path.
[[nodiscard]] std::string file_or_shipped(const std::string& text, Shipped kind);

/// Replaces the value of an option by the path that it means.
[[nodiscard]] CLI::Validator shipped_file(Shipped kind);

}  // namespace athanor::cli
