// SPDX-License-Identifier: Apache-2.0
// Command lines: one way to parse and to print results for every program.
#pragma once

#include "sim/base/quantities.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace athanor::cli {

/// Returns the name and version, such as "athanor 0.1.0".
[[nodiscard]] std::string version_text();

/// Runs the chosen verb of a program, once the whole command line was parsed. Returns the exit
/// code.
using Action = std::function<int()>;

/// Parses the command line and runs the `action` that the chosen verb set. Every verb has
/// --version. Prints help and version to stdout. Turns CLI11's own exit codes into 2, with the
/// message on stderr.
[[nodiscard]] int parse_and_run(CLI::App& app, Action& action, int argc, const char* const* argv);

/// Adds an option that takes a size such as 40GiB. A size that is no positive number of bytes
/// throws an InputError that names the option.
CLI::Option* add_size(CLI::App& app, const std::string& name, Bytes& bytes,
                      const std::string& help);

/// Adds --config, a TOML file of options. An unknown key in it is an InputError that names the
/// nearest option.
void add_config(CLI::App& app);

/// Largest count that an option takes: products of two of them stay exact.
inline constexpr std::int64_t kMaxOption = 1'000'000'000;

/// Accepts whole numbers from `minimum` to `maximum`, and says them in plain figures.
[[nodiscard]] CLI::Validator whole_number(std::int64_t minimum, std::int64_t maximum = kMaxOption);

/// Adds an option that takes a positive count.
template <typename Integer>
CLI::Option* add_count(CLI::App& app, const std::string& name, Integer& value,
                       const std::string& help) {
  return app.add_option(name, value, help)->check(whole_number(1))->type_name("N");
}

/// Adds an option that takes a share such as 5% or 0.05.
CLI::Option* add_share(CLI::App& app, const std::string& name, double& share,
                       const std::string& help);

/// Parses a share such as 5% or 0.05, from 0 to 10. Throws InputError that names `where`.
[[nodiscard]] double parse_share(const std::string& text, const std::string& where);

/// Adds --quiet, the flag that silences progress in every verb that takes long.
CLI::Option* add_quiet(CLI::App& app, bool& quiet);

/// Accepts `alias` as an older name of `option` that help does not show. Only one of the two may be
/// given.
void add_hidden_alias(CLI::App& app, const std::string& alias, CLI::Option* option);

/// Throws an InputError for the first of `options` of the parsed `verb` that was given, where they
/// have no effect: an option that is taken without a word is believed to have one.
void refuse_given(const CLI::App& verb, const std::vector<std::string>& options,
                  const std::string& problem, const std::string& way_out = "Leave it out.");

/// Throws an InputError that names the option where no file can be written at `path`: minutes of
/// work must not end so. An empty path, a pipe and a device are passed over.
void require_writable(const std::string& option, const std::string& path);

/// Throws an InputError that names the option if its file is one of the inputs, by whatever name.
/// Empty paths are passed over.
void require_no_input(const std::string& output, const std::string& option,
                      const std::vector<std::string>& inputs);

}  // namespace athanor::cli
