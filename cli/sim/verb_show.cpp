// SPDX-License-Identifier: Apache-2.0
// athanor show: prints an artefact for people or scripts.
#include "cli/sim/show.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/model/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace athanor::cli {
namespace {

struct Kind {
  std::string_view name;
  void (*show)(const ShowRequest&);
};

constexpr std::array<Kind, 6> kKinds{{{"model", show_model},
                                      {"memory", show_memory},
                                      {"plan", show_plan},
                                      {"program", show_program},
                                      {"platform", show_platform},
                                      {"profile", show_profile}}};

const Kind& find_kind(const std::string& name) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const Kind& kind) { return kind.name == name; });
  if (found != kKinds.end()) return *found;
  throw InputError("show", fmt::format("unknown kind \"{}\"", name),
                   "Use one of model, memory, plan, program, platform, profile.");
}

bool is_json(const std::string& format) {
  if (format == "table" || format == "json") return format == "json";
  throw InputError("--as", fmt::format("unknown form \"{}\"", format), "Use table or json.");
}

}  // namespace

void add_show(CLI::App& app, Action& action) {
  struct Options {
    ShowRequest request;
    std::string format = "table";
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("show", "Prints a model, plan, program, platform or profile");
  verb->add_option("kind", options->request.kind,
                   "model, memory, plan, program, platform or profile")
      ->required();
  verb->add_option("file", options->request.file,
                   "The file; for a model a config.json, its folder or a built-in name")
      ->required();
  verb->add_option("--profile", options->request.profile_path,
                   "For memory and program: the profile, instead of the one that the plan names")
      ->type_name("FILE");
  verb->add_option("--as", options->format, "table or json (default: table)")->type_name("FORM");
  verb->callback([&action, options] {
    action = [options]() -> int {
      options->request.json = is_json(options->format);
      find_kind(options->request.kind).show(options->request);
      return kExitDone;
    };
  });
}

}  // namespace athanor::cli
