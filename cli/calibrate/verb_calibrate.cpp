// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/verb_calibrate.hpp"

#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/machine/calibrate_job.hpp"
#include "calibrate/machine/describe.hpp"
#include "calibrate/machine/machine.hpp"
#include "calibrate/power/power_bursts.hpp"
#include "cli/calibrate/measurement.hpp"
#include "executor/backend/scratch_file.hpp"
#include "executor/ranks/connect.hpp"
#include "executor/rendezvous/mpi_launch.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/rates/pooled_looks.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

namespace athanor::cli {
namespace {

/// Returns the folder in which files are measured: that of `--nvme`, or else of the output. Tries
/// it first, as minutes of measuring come before files.
std::string measured_folder(const CalibrateArguments& arguments) {
  if (arguments.nvme.empty()) return folder_of(arguments.output);
  try {
    const ScratchFile probe(arguments.nvme, kFileBlock);
  } catch (const Error& error) {
    throw InputError("--nvme", error.what(), "Name a folder on the disk that train --nvme uses.");
  }
  return arguments.nvme;
}

/// Has the measurements of power written before a model is fitted: also if no model fits them.
void keep_power_bursts(CalibrateArguments& arguments, bool& kept) {
  if (!uses_cuda(arguments.options.backend)) {
    throw InputError("--power-bursts", "power is measured on GPUs only",
                     "Use --backend cuda, or leave --power-bursts out.");
  }
  require_writable("--power-bursts", arguments.power_bursts);
  arguments.options.power_measured = [&](const PowerMeasurements& measured,
                                         const Provenance& provenance) {
    write_file_atomically(arguments.power_bursts, to_json(measured, provenance));
    kept = true;
  };
}

/// Measures this machine, or all machines of the job that a launcher has started: then rank 0 alone
/// gets a platform.
std::optional<Platform> measure(const CalibrateArguments& arguments, Ranks& ranks) {
  const RankInfo rank = rank_from_environment();
  if (rank.world_size == 1) return calibrate_machine(arguments.options, own_program());
  ranks = connect_processes(rank);
  return calibrate_job(arguments.options, rank, *ranks);
}

/// Reads the platforms that this machine's will be pooled with, and has the calibration refuse
/// those of other machines before it measures.
std::vector<EarlierLook> read_earlier(CalibrateArguments& arguments) {
  std::vector<EarlierLook> earlier;
  if (rank_from_environment().rank != 0) return earlier;  // rank 0 alone gets a platform
  require_no_input(arguments.output, "--output", arguments.earlier);
  for (const std::string& path : arguments.earlier) earlier.push_back({path, read_platform(path)});
  arguments.options.described = [earlier](const Platform& here) {
    for (const EarlierLook& look : earlier) require_alike(here, look);
  };
  return earlier;
}

/// Writes what was measured before anything is pooled: a look is never lost.
Platform write_platform(const Platform& measured, const std::vector<EarlierLook>& earlier,
                        const std::string& output) {
  write_file_atomically(output, to_json(measured));
  if (earlier.empty()) return measured;
  Platform pooled = pool_looks(measured, earlier);
  write_file_atomically(output, to_json(pooled));
  return pooled;
}

int calibrate(CalibrateArguments& arguments, Ranks& ranks) {
  arguments.quiet |= rank_from_environment().rank != 0;
  require_writable("--output", arguments.output);
  const bool keeps_bursts = !arguments.power_bursts.empty();
  bool kept_bursts = false;
  if (keeps_bursts) keep_power_bursts(arguments, kept_bursts);
  arguments.options.folder = measured_folder(arguments);
  Sayings sayings(arguments.quiet);
  arguments.options.progress = sayings.progress();
  arguments.options.remark = sayings.remark();
  arguments.options.warn = sayings.warn();
  if (!arguments.refresh.empty()) arguments.options.before = read_platform(arguments.refresh);
  const std::vector<EarlierLook> earlier = read_earlier(arguments);
  const bool is_alone = rank_from_environment().world_size == 1;  // else ranks see each other start
  const std::string others = is_alone ? others_on_host(sayings) : "";
  std::optional<Platform> measured = measure(arguments, ranks);
  sayings.end();
  if (!measured) return kExitDone;
  if (!others.empty()) add_note(measured->provenance, others);
  const Platform platform = write_platform(*measured, earlier, arguments.output);
  fmt::print(stderr, "{}", describe(platform));
  for (const std::string& line : pooled_lines(platform)) fmt::print(stderr, "  {}\n", line);
  fmt::print(stderr, "written to {}\n", arguments.output);
  if (keeps_bursts && !kept_bursts) {
    throw Error("--power-bursts: there is nothing to write; " + platform.provenance.notes);
  }
  return kExitDone;
}

}  // namespace

void add_calibrate(CLI::App& app, CalibrateArguments& arguments, Ranks& ranks, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "calibrate",
      "Measure this machine; under mpirun, srun or torchrun, several and their network.");
  CalibrationOptions& options = arguments.options;
  verb->add_option("--backend", options.backend, "Use this backend: auto, cpu or cuda.")
      ->capture_default_str();
  CLI::Option* count =
      add_count(*verb, "--gpus", options.ranks,
                "Measure collectives for 1 to N processes or GPUs. Default: 2, or every GPU.");
  add_hidden_alias(*verb, "--ranks", count);
  verb->add_flag("--quick", options.quick, "Take fewer sizes and repetitions.");
  CLI::Option* refresh =
      verb->add_option("--refresh", arguments.refresh,
                       "Read this machine's file and measure only its host again: copies, AdamW on "
                       "the CPU, files, launches. Other tenants of a host change them. GPUs only.")
          ->type_name("PLATFORM.json")
          ->excludes(count);
  verb->add_option(
          "--earlier", arguments.earlier,
          "Pool CPU AdamW with what these files of this machine, or of others of its kind, "
          "say of it: one look at a shared host tells less than several.")
      ->type_name("PLATFORM.json..");
  verb->add_option("--nvme", arguments.nvme,
                   "Measure files here, in the folder that train --nvme will name (default: the "
                   "folder of --output)")
      ->type_name("FOLDER");
  verb->add_option("--power-bursts", arguments.power_bursts,
                   "Also write the measurements that the power model is fitted to. GPUs only.")
      ->type_name("BURSTS.json")
      ->excludes(refresh);
  add_quiet(*verb, arguments.quiet);
  add_output(*verb, arguments.output, "Write this platform file.", "PLATFORM.json");
  verb->callback([&] { action = [&] { return calibrate(arguments, ranks); }; });
}

void add_worker(CLI::App& app, CalibrateArguments& arguments, Action& action) {
  CLI::App* verb = app.add_subcommand("collective-worker")->group("");
  verb->add_flag("--quick", arguments.options.quick);
  verb->add_option("-o", arguments.output)->required();
  verb->callback([&] {
    action = [&] {
      run_collective_worker(arguments.options.quick, arguments.output);
      return kExitDone;
    };
  });
}

}  // namespace athanor::cli
