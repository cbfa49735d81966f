// SPDX-License-Identifier: Apache-2.0
// Implements athanor pool, which combines platforms that were measured on machines of one kind.
#include "cli/common/shipped_files.hpp"
#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/rates/pooled_looks.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace athanor::cli {
namespace {

struct PoolOptions {
  std::string platform_path, output_path;
  std::vector<std::string> earlier_paths;
  bool json = false;
};

int pool(const PoolOptions& options) {
  // The platform itself may be brought up to date in place; earlier ones may not be lost.
  require_no_input(options.output_path, "--output", options.earlier_paths);
  std::vector<EarlierLook> earlier;
  for (const std::string& path : options.earlier_paths) {
    earlier.push_back({path, read_platform(path)});
  }
  const Platform platform = pool_looks(read_platform(options.platform_path), earlier);
  platform.validate(options.output_path);
  const std::string text = to_json(platform);
  write_file_atomically(options.output_path, text);
  if (options.json) {
    print_json({{"pooled", nlohmann::ordered_json::parse(text).at("pooled")}});
    return kExitDone;
  }
  for (const std::string& line : pooled_lines(platform)) fmt::print("{}\n", line);
  return kExitDone;
}

}  // namespace

void add_pool(CLI::App& app, Action& action) {
  auto options = std::make_shared<PoolOptions>();
  CLI::App* verb = app.add_subcommand(
      "pool", "Combine what was measured on machines of one kind, or on one machine at times");
  verb->add_option("platform", options->platform_path,
                   "Platform whose CPU Adam is pooled with that of earlier ones")
      ->required()
      ->type_name("PLATFORM")
      ->transform(shipped_file(Shipped::Platforms));
  verb->add_option("--earlier", options->earlier_paths,
                   "Platforms of this machine, or of others of its kind, that were measured before")
      ->required()
      ->type_name("PLATFORM..")
      ->transform(shipped_file(Shipped::Platforms));
  verb->add_option("-o,--output", options->output_path, "Write the platform here")
      ->required()
      ->type_name("FILE");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->callback([&action, options] { action = [options] { return pool(*options); }; });
}

}  // namespace athanor::cli
