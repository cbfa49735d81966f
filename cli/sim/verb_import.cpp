// SPDX-License-Identifier: Apache-2.0
// Implements athanor import, which turns other tools' measurements into platforms and profiles.
#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"
#include "sim/benchmarks/import_benchmarks.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/interchange/gzip_stream.hpp"
#include "sim/interchange/import_kineto.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

namespace athanor::cli {
namespace {

struct ImportOptions {
  std::vector<std::string> files;
  std::string platform_path, base_path, architecture, output_path;
  std::int64_t micro_batch = 0;
  std::optional<std::int64_t> step;
  bool json = false;
};

int import_into_platform(const ImportOptions& options) {
  require_option(!options.output_path.empty(), "-o,--output", "Say where the platform goes.");
  // A platform may be brought up to date in place; results may not be lost.
  require_no_input(options.output_path, "--output", options.files);
  Platform platform = read_platform(options.platform_path);
  std::vector<std::string> taken;
  for (const std::string& file : options.files) {
    const std::vector<std::string> lines =
        import_benchmark(read_text_file(file, kMaxDocument), file, platform);
    taken.insert(taken.end(), lines.begin(), lines.end());
  }
  platform.validate(options.output_path);
  write_file_atomically(options.output_path, to_json(platform));
  if (options.json) {
    print_json({{"imported", taken}});
  } else {
    for (const std::string& line : taken) fmt::print("{}\n", line);
  }
  return kExitDone;
}

std::string_view class_name(int kind) {
  return name_of(kKernelClassNames, static_cast<KernelClass>(kind));
}

nlohmann::ordered_json table_json(const KinetoTable& table) {
  nlohmann::ordered_json json;
  json["step"] = table.step ? nlohmann::ordered_json(*table.step) : nullptr;
  json["device"] = table.device;
  json["passes"] = table.passes;
  json["rows"] = nlohmann::ordered_json::array();
  for (const KinetoRow& row : table.rows) {
    nlohmann::ordered_json seconds;
    for (int kind = 0; kind < kNumKernelClasses; ++kind) {
      seconds[std::string(class_name(kind))] = row.seconds[static_cast<std::size_t>(kind)];
    }
    json["rows"].push_back({{"module", row.module},
                            {"phase", kineto_phase_name(row.phase)},
                            {"seconds", std::move(seconds)}});
  }
  return json;
}

std::vector<int> classes_with_time(const KinetoTable& table) {
  std::vector<int> kinds;
  for (int kind = 0; kind < kNumKernelClasses; ++kind) {
    if (std::any_of(table.rows.begin(), table.rows.end(), [&](const KinetoRow& row) {
          return row.seconds[static_cast<std::size_t>(kind)] > 0;
        })) {
      kinds.push_back(kind);
    }
  }
  return kinds;
}

std::string table_text(const KinetoTable& table) {
  const std::vector<int> kinds = classes_with_time(table);
  std::string text = fmt::format("{:<44} {:<9}", "module", "phase");
  for (const int kind : kinds) text += fmt::format(" {:>13}", class_name(kind));
  text += "\n";
  for (const KinetoRow& row : table.rows) {
    text += fmt::format("{:<44} {:<9}", row.module.empty() ? "-" : row.module,
                        kineto_phase_name(row.phase));
    for (const int kind : kinds) {
      const Seconds seconds = row.seconds[static_cast<std::size_t>(kind)];
      text += fmt::format(" {:>13}", seconds > 0 ? format_seconds(seconds) : "-");
    }
    text += "\n";
  }
  const auto sum = [&](auto&& counts) {
    return std::accumulate(table.rows.begin(), table.rows.end(), 0.0,
                           [&](Seconds total, const KinetoRow& row) {
                             return counts(row) ? total + row.total() : total;
                           });
  };
  const Seconds all = sum([](const KinetoRow&) { return true; });
  const Seconds named = sum([](const KinetoRow& row) { return !row.module.empty(); });
  text +=
      fmt::format("\n{}: {} of device activities on {}, {:.1f} % with a name\n",
                  table.step ? fmt::format("step {}", *table.step) : "no steps marked, all",
                  format_seconds(all), table.device.empty() ? "an unnamed device" : table.device,
                  all > 0 ? 100 * named / all : 0.0);
  return text;
}

void print_table(const KinetoTable& table, bool json) {
  if (json) {
    print_json(table_json(table));
  } else {
    fmt::print("{}", table_text(table));
  }
}

/// Throws InputError that names --into where the file holds a benchmark's results.
void require_trace(const std::string& path) {
  std::string start(1 << 16, '\0');
  const auto stream = open_maybe_gzip(path);
  const std::streamsize count =
      stream->rdbuf()->sgetn(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(count));
  const std::string_view program = benchmark_in(start);
  require_option(program.empty(), "--into",
                 fmt::format("{} holds results of {}: give --into PLATFORM, which takes them, and "
                             "-o FILE.",
                             printable(path), program));
}

/// Prints the device seconds of each trace.
int show_traces(const ImportOptions& options) {
  require_option(options.output_path.empty() && options.micro_batch == 0, "--base",
                 "A profile needs the bytes of another: give one of the same model.");
  std::optional<Architecture> architecture;
  if (!options.architecture.empty()) architecture = load_architecture(options.architecture);
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const std::string& path : options.files) {
    const OpenTrace open = [&path] { return open_maybe_gzip(path); };
    const KinetoTable table =
        read_kineto_step(open, path, options.step, architecture ? &*architecture : nullptr);
    if (options.json) {
      tables.push_back(table_json(table));
    } else {
      if (options.files.size() > 1) fmt::print("{}\n", printable(path));
      fmt::print("{}", table_text(table));
    }
  }
  if (options.json) print_json(tables.size() == 1 ? tables.front() : tables);
  return kExitDone;
}

int import_trace(const ImportOptions& options) {
  for (const std::string& file : options.files) require_trace(file);
  if (options.base_path.empty()) return show_traces(options);
  if (options.files.size() != 1) {
    throw InputError("--base",
                     fmt::format("takes one trace, and {} are given", options.files.size()),
                     "Give one trace of one rank.");
  }
  const std::string& path = options.files.front();
  const OpenTrace open = [&path] { return open_maybe_gzip(path); };
  require_option(options.micro_batch > 0, "--micro-batch", "Say how many sequences ran at once.");
  require_option(!options.output_path.empty(), "-o,--output", "Say where the profile goes.");
  require_no_input(options.output_path, "--output", {path});
  const Profile base = read_profile(options.base_path);
  const KinetoTable table = read_kineto_step(open, path, options.step, &base.architecture);
  const Profile profile = profile_from_kineto(table, path, base, options.micro_batch);
  profile.validate(options.output_path);
  write_file_atomically(options.output_path, to_json(profile));
  print_table(table, options.json);
  return kExitDone;
}

}  // namespace

void add_import(CLI::App& app, Action& action) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* verb = app.add_subcommand(
      "import", "Take measurements of nvbandwidth, nccl-tests, fio, STREAM and torch.profiler");
  verb->add_option(
          "file", options->files,
          "With --into: what nvbandwidth, nccl-tests and STREAM print, or JSON of "
          "nvbandwidth -j, nccl-tests -J and fio; else a trace of torch.profiler, .json or "
          ".json.gz")
      ->required();
  CLI::Option* into =
      verb->add_option("--into", options->platform_path, "Platform that takes the measurements")
          ->type_name("PLATFORM");
  CLI::Option* base =
      verb->add_option("--base", options->base_path,
                       "Profile of the traced model: its bytes, with the trace's seconds")
          ->type_name("PROFILE")
          ->excludes(into);
  verb->add_option("--architecture", options->architecture,
                   "Sum a trace by the units of this model: a config.json, its folder or a "
                   "built-in name")
      ->type_name("NAME")
      ->excludes(into)
      ->excludes(base);
  add_count(*verb, "--micro-batch", options->micro_batch, "Sequences that the trace ran at once")
      ->excludes(into);
  verb->add_option("--step", options->step, "N of ProfilerStep#N (default: the last whole one)")
      ->type_name("N")
      ->excludes(into);
  verb->add_option("-o,--output", options->output_path, "Write the platform or profile here")
      ->type_name("FILE");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->callback([&action, options] {
    action = [options] {
      return options->platform_path.empty() ? import_trace(*options)
                                            : import_into_platform(*options);
    };
  });
}

}  // namespace athanor::cli
