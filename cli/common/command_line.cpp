// SPDX-License-Identifier: Apache-2.0
#include "cli/common/command_line.hpp"

#include "sim/base/error_report.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/nearest_name.hpp"
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <system_error>
#include <vector>

namespace athanor::cli {
namespace {

constexpr const char* kConfigOption = "--config";

/// Throws InputError for a key of the --config file that is no option, or none for a file.
[[noreturn]] void reject_key(const CLI::App& app, const std::string& message) {
  constexpr std::string_view kUnknown = "INI was not able to parse ";
  const std::string file = app.get_option(kConfigOption)->as<std::string>();
  if (!message.starts_with(kUnknown)) throw InputError(file, message, "Remove the key.");
  std::string key = message.substr(kUnknown.size());
  constexpr std::string_view kSection = ".++";  // CLI11's name for the start of a section
  if (key.ends_with(kSection)) key.resize(key.size() - kSection.size());
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_configurable() && !option->get_group().empty()) {
      known.push_back(option->get_single_name());
    }
  }
  throw InputError(file + ":" + key, "unknown key",
                   nearest_hint(key, known, fmt::format("Known: {}.", fmt::join(known, ", "))));
}

/// Returns the command that the words on the line were for.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<const CLI::App*> chosen =
      app.get_subcommands([](const CLI::App* command) { return command->count() > 0; });
  return chosen.empty() ? app : innermost(*chosen.front());
}

/// Throws an InputError that names the first option that is not known, if there is one.
void reject_option(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  for (const std::string& word : command.remaining()) {
    const std::string option = word.substr(0, word.find('='));
    if (!option.starts_with("--")) continue;
    std::vector<std::string> known;
    for (const CLI::Option* candidate : command.get_options()) {
      if (candidate->get_group().empty()) continue;
      for (const std::string& name : candidate->get_lnames()) known.push_back("--" + name);
    }
    throw InputError(option, "unknown option", nearest_hint(option, known, "See --help."));
  }
}

/// Prints help and version to stdout, and what is wrong with the command line to stderr.
int finish(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream message;
  const int code = app.exit(error, std::cout, message);
  if (code == 0) return kExitDone;
  if (errors_are_json()) {
    return report_error({app.get_name(), error.what(), "See its --help.", kExitBadInput});
  }
  std::cerr << printable(message.str(), LineEnds::Kept);
  return kExitBadInput;
}

}  // namespace

std::string version_text() { return "athanor " ATHANOR_VERSION; }

void add_config(CLI::App& app) {
  // The validator runs before the file is opened by CLI11, which would wait for a pipe's writer.
  const auto check = [](std::string& path) {
    constexpr Bytes kMost = kMiB;
    static_cast<void>(read_text_file(path, kMost));
    return std::string();
  };
  app.set_config(kConfigOption, "", "TOML file: every key is one of these options")
      ->check(CLI::Validator(check, ""));
  app.allow_config_extras(CLI::config_extras_mode::error);
}

CLI::Validator whole_number(std::int64_t minimum, std::int64_t maximum) {
  const auto check = [minimum, maximum](std::string& text) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, value);
    const bool whole = status == std::errc{} && rest == end;
    if (whole && value >= minimum && value <= maximum) return std::string();
    return fmt::format(
        "'{}' is {}. Use a whole number from {} to {}", text,
        whole || status == std::errc::result_out_of_range ? "out of range" : "no whole number",
        minimum, maximum);
  };
  return {check, ""};
}

int parse_and_run(CLI::App& app, Action& action, int argc, const char* const* argv) {
  const auto any = [](CLI::App* verb) { return !verb->get_group().empty(); };
  for (CLI::App* verb : app.get_subcommands(any)) {
    verb->set_version_flag("--version", version_text());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ConfigError& error) {
    reject_key(app, error.what());
  } catch (const CLI::ParseError& error) {
    // A misspelt option is also one that is missing.
    if (error.get_exit_code() != 0) reject_option(app);
    return finish(app, error);
  }
  return action();
}

CLI::Option* add_size(CLI::App& app, const std::string& name, Bytes& bytes,
                      const std::string& help) {
  const auto assign = [name, &bytes](const std::string& text) {
    bytes = parse_bytes(text, name);
    if (bytes < 1) throw InputError(name, "no memory at all", "Write a size like 40GiB.");
  };
  return app.add_option_function<std::string>(name, assign, help)->type_name("SIZE");
}

void add_hidden_alias(CLI::App& app, const std::string& alias, CLI::Option* option) {
  app.add_option_function<std::string>(alias,
                                       [alias, option](const std::string& value) {
                                         if (option->count() > 0) {
                                           throw CLI::ExcludesError(alias, option->get_name());
                                         }
                                         option->add_result(value);
                                         option->run_callback();
                                       })
      ->group("");
}

double parse_share(const std::string& text, const std::string& where) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const double share = unit == "%" ? number / 100 : number;
  const bool understood = status == std::errc{} && (unit.empty() || unit == "%");
  const bool in_range = share >= 0 && share <= 10;  // false for NaN
  if (!understood || !in_range) {
    throw InputError(where, fmt::format("\"{}\" is not a share", text), "Write 5% or 0.05.");
  }
  return share;
}

CLI::Option* add_share(CLI::App& app, const std::string& name, double& share,
                       const std::string& help) {
  const auto assign = [name, &share](const std::string& text) { share = parse_share(text, name); };
  return app.add_option_function<std::string>(name, assign, help)->type_name("SHARE");
}

CLI::Option* add_quiet(CLI::App& app, bool& quiet) {
  return app.add_flag("--quiet", quiet, "Print no progress lines");
}

void require_writable(const std::string& option, const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return;
  std::error_code absent;
  fs::path target = fs::canonical(path, absent);  // a link stays, and its target is written
  if (absent) target = path;
  if (fs::is_directory(target, absent)) {
    throw InputError(option, path + " is a folder", "Name a file in it.");
  }
  if (fs::exists(target, absent) && !fs::is_regular_file(target, absent)) return;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (!fs::is_directory(folder, absent)) {
    throw InputError(option, "there is no folder " + folder.string(),
                     "Make it, or choose another.");
  }
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw InputError(option,
                   fmt::format("{} cannot be written: {}", folder.string(),
                               std::generic_category().message(errno)),
                   "Choose another folder.");
}

void refuse_given(const CLI::App& verb, const std::vector<std::string>& options,
                  const std::string& problem, const std::string& way_out) {
  for (const std::string& option : options) {
    if (verb.count(option) > 0) throw InputError(option, problem, way_out);
  }
}

void require_no_input(const std::string& output, const std::string& option,
                      const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  for (const std::string& input : inputs) {
    std::error_code absent;  // an output that is not there yet is no input
    if (output.empty() || input.empty() || !fs::equivalent(output, input, absent)) continue;
    throw InputError(option, fmt::format("{} is an input, and would be lost", output),
                     "Give the output another name.");
  }
}

}  // namespace athanor::cli
