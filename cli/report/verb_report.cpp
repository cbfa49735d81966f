// SPDX-License-Identifier: Apache-2.0
// Implements athanor report, which draws a result as one HTML page.
#include "cli/common/shipped_files.hpp"
#include "cli/report/page.hpp"
#include "cli/report/plan_page.hpp"
#include "cli/report/run_page.hpp"
#include "cli/report/search_page.hpp"
#include "cli/sim/inputs.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;

struct ReportVerbOptions {
  const CLI::App* verb = nullptr;  ///< knows which options were given
  std::string input, output, all_path;
  Inputs inputs;  ///< for a plan
};

struct ReportPage {
  std::string title;
  nlohmann::ordered_json data;
};

constexpr const char* kInputs =
    "Give a run folder, a plan, or what athanor tune --json printed or tune --all wrote.";

/// Refuses the options that are for a plan.
void refuse_inputs(const ReportVerbOptions& options) {
  refuse_given(*options.verb, {"--profile", "--platform", "--profile-platform"},
               "is for a plan, and this is none");
}

/// Refuses the option that is for what `tune --json` printed for one platform.
void refuse_all(const ReportVerbOptions& options) {
  refuse_given(*options.verb, {"--all"},
               "is for what tune --json printed for one platform, and this is none");
}

std::string page_path(const ReportVerbOptions& options) {
  if (!options.output.empty()) return options.output;
  if (fs::is_directory(options.input)) return (fs::path(options.input) / "report.html").string();
  return fs::path(options.input).replace_extension(".html").string();
}

/// Whether the text is what `tune --all` writes: an object a line, each of them with a rank.
bool is_candidates(const std::string& text) {
  constexpr std::size_t kLongest = 1 << 16;  // a line has some hundred bytes
  const std::string first = text.substr(0, std::min(kLongest, text.find('\n')));
  const auto line = nlohmann::json::parse(first, nullptr, /*allow_exceptions=*/false);
  return line.is_object() && line.contains("rank") && line.contains("outcome");
}

std::string base_name(const std::string& path) { return fs::path(path).filename().string(); }

/// Schema of a file of athanor's; empty for any other document.
std::string schema_of(const nlohmann::json& document) {
  const bool has = document.is_object() && document.contains("schema");
  return has && document["schema"].is_string() ? document["schema"].get<std::string>() : "";
}

ReportPage page_of_candidates(const ReportVerbOptions& options, const std::string& text) {
  return {fmt::format("Plans tried: {}", base_name(options.input)),
          {{"kind", "candidates"}, {"candidates", candidates_json(text, options.input)}}};
}

ReportPage page_of_search(const ReportVerbOptions& options, const nlohmann::json& document) {
  ReportPage page{fmt::format("Search: {}", base_name(options.input)),
                  search_page(document, options.input)};
  if (!options.all_path.empty()) {
    page.data["candidates"] = candidates_json(read_text_file(options.all_path), options.all_path);
  }
  return page;
}

ReportPage page_of_file(const ReportVerbOptions& options) {
  const std::string text = read_text_file(options.input);
  if (is_candidates(text)) {
    refuse_inputs(options);
    refuse_all(options);
    return page_of_candidates(options, text);
  }
  const nlohmann::json document = parse_json(text, options.input);
  if (document.is_object() && document.contains("platforms")) {
    refuse_inputs(options);
    refuse_all(options);
    return {fmt::format("Platforms: {}", base_name(options.input)),
            platforms_page(document, options.input)};
  }
  if (document.is_object() && document.contains("step_seconds")) {
    refuse_inputs(options);
    return page_of_search(options, document);
  }
  const std::string schema = schema_of(document);
  if (schema.starts_with("athanor.plan/")) {
    refuse_all(options);
    return {fmt::format("Plan: {}", base_name(options.input)),
            plan_page(options.input, options.inputs)};
  }
  throw InputError(options.input,
                   schema.empty() ? "is nothing that athanor report draws"
                                  : fmt::format("is of the schema \"{}\"", schema),
                   kInputs);
}

ReportPage page_of(const ReportVerbOptions& options) {
  if (fs::is_directory(options.input)) {
    refuse_inputs(options);
    refuse_all(options);
    return {fmt::format("Run: {}", base_name(fs::absolute(options.input).lexically_normal())),
            run_page(options.input)};
  }
  return page_of_file(options);
}

int report(const ReportVerbOptions& options) {
  const std::string path = page_path(options);
  require_no_input(path, "--output",
                   {options.input, options.all_path, options.inputs.profile_path,
                    options.inputs.platform_path, options.inputs.profile_platform_path});
  const ReportPage page = page_of(options);
  write_file_atomically(path, html_page(page.title, page.data));
  fmt::print("{}\n", path);
  return kExitDone;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReportVerbOptions>();
  CLI::App* verb = app.add_subcommand("report", "Draw a result as one HTML page");
  options->verb = verb;
  verb->add_option("input", options->input,
                   "Run folder, plan, or what tune --json printed: for one platform or several")
      ->required()
      ->type_name("PATH");
  verb->add_option("-o,--output", options->output,
                   "Write the page here (default: report.html in the run folder, or beside the "
                   "file under its name)")
      ->type_name("FILE");
  verb->add_option("--all", options->all_path,
                   "For a search: every plan that was tried, which tune --all wrote")
      ->type_name("FILE");
  verb->add_option("--profile", options->inputs.profile_path,
                   "For a plan: the profile, instead of the one that it names")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Profiles));
  verb->add_option("--platform", options->inputs.platform_path,
                   "For a plan: the platform, instead of the one that it names")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Platforms));
  verb->add_option("--profile-platform", options->inputs.profile_platform_path,
                   "For a plan: scale the profile from this machine, on which it was measured")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Platforms));
  verb->callback([&action, options] { action = [options] { return report(*options); }; });
}

}  // namespace athanor::cli
