// SPDX-License-Identifier: Apache-2.0
// Implements athanor show, which prints an artefact for people or scripts.
#include "cli/common/shipped_files.hpp"
#include "cli/sim/show.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::cli {
namespace {

struct Kind {
  std::string_view name;
  void (*show)(const ShowRequest&);
  std::array<std::string_view, 3> exports;  ///< forms other than table and json; empty: none
};

constexpr std::array<Kind, 6> kKinds{
    {{"model", show_model, {}},
     {"memory", show_memory, {}},
     {"plan", show_plan, {"deepspeed", "accelerate", "torchtitan"}},
     {"program", show_program, {"chakra"}},
     {"platform", show_platform, {"simgrid-xml"}},
     {"profile", show_profile, {}}}};

const Kind& find_kind(const std::string& name) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const Kind& kind) { return kind.name == name; });
  if (found != kKinds.end()) return *found;
  throw InputError("show", fmt::format("unknown kind \"{}\"", name),
                   "Use one of model, memory, plan, program, platform, profile.");
}

void check_form(const Kind& kind, const std::string& form) {
  std::vector<std::string_view> known{"table", "json"};
  std::copy_if(kind.exports.begin(), kind.exports.end(), std::back_inserter(known),
               [](std::string_view name) { return !name.empty(); });
  if (std::find(known.begin(), known.end(), form) != known.end()) return;
  throw InputError(
      "--as", fmt::format("a {} cannot be shown as \"{}\"", kind.name, form),
      fmt::format("Use {} or {}.", fmt::join(known.begin(), known.end() - 1, ", "), known.back()));
}

/// Kind of installed files that a name may stand for; nothing for what is never installed.
std::optional<Shipped> shipped_kind(const Kind& kind) {
  if (kind.name == "platform") return Shipped::Platforms;
  if (kind.name == "profile") return Shipped::Profiles;
  return std::nullopt;
}

/// Refuses options that are for other kinds.
void check_options(const CLI::App& verb, const Kind& kind, const std::string& form) {
  const bool is_program = kind.name == "program";
  if (!is_program && kind.name != "memory") {
    refuse_given(verb, {"--profile"}, "is for memory and program");
  }
  if (!is_program || form != "chakra") {
    refuse_given(verb, {"--platform"}, "is for program --as chakra");
  }
  if (kind.name != "model") refuse_given(verb, {"--split-blocks"}, "is for a model");
}

int list_shipped(Shipped kind) {
  const std::vector<std::string> names = shipped_names(kind);
  if (names.empty()) {
    throw InputError("file", "is missing, and this athanor is not installed, so it has no names",
                     "Give a file.");
  }
  for (const std::string& name : names) fmt::print("{}\n", name);
  return kExitDone;
}

}  // namespace

void add_show(CLI::App& app, Action& action) {
  auto request = std::make_shared<ShowRequest>();
  CLI::App* verb = app.add_subcommand("show", "Print a model, plan, program, platform or profile");
  verb->add_option("kind", request->kind, "model, memory, plan, program, platform or profile")
      ->required();
  verb->add_option(
      "file", request->file,
      "The file; for a model a config.json, its folder or a built-in name. Without it, "
      "the names of installed platforms or profiles are listed");
  verb->add_option("--profile", request->profile_path,
                   "For memory and program: the profile, instead of the one that the plan names")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Profiles));
  verb->add_option("--platform", request->platform_path,
                   "For program --as chakra: the platform, instead of the one that the plan names")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Platforms));
  verb->add_flag("--split-blocks", request->split_blocks,
                 "For a model: two units of each block, as a profile with --split-blocks has them");
  verb->add_option("--as", request->form,
                   "table (default) or json; for a plan also deepspeed, accelerate or torchtitan, "
                   "for a program chakra, for a platform simgrid-xml")
      ->type_name("FORM");
  verb->callback([&action, verb, request] {
    action = [verb, request]() -> int {
      const Kind& kind = find_kind(request->kind);
      check_form(kind, request->form);
      check_options(*verb, kind, request->form);
      if (const auto shipped = shipped_kind(kind)) {
        if (request->file.empty()) return list_shipped(*shipped);
        request->file = file_or_shipped(request->file, *shipped);
      }
      if (request->file.empty()) throw InputError("file", "is missing", "Name what to show.");
      kind.show(*request);
      return kExitDone;
    };
  });
}

}  // namespace athanor::cli
