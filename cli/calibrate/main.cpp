// SPDX-License-Identifier: Apache-2.0
// athanor-calibrate: measures machines and models.
#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/device/other_work.hpp"
#include "calibrate/kernels/kineto_trace.hpp"
#include "calibrate/machine/calibrate_job.hpp"
#include "calibrate/machine/calibrate_machine.hpp"
#include "calibrate/machine/cuda_machine.hpp"
#include "calibrate/machine/describe.hpp"
#include "calibrate/machine/machine.hpp"
#include "calibrate/power/power_bursts.hpp"
#include "calibrate/profile/profile_model.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "cli/calibrate/print_profile.hpp"
#include "cli/common/command_line.hpp"
#include "cli/common/progress_line.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/backend/scratch_file.hpp"
#include "executor/ranks/connect.hpp"
#include "executor/rendezvous/mpi_launch.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/traced/make_model.hpp"
#include "executor/units/torch_errors.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/model/language_models.hpp"
#include "sim/model/program.hpp"
#include "sim/rates/pooled_looks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace athanor {
namespace {

/// The ranks of a job that measure together. They outlive a failure, because an orderly end of MPI
/// would wait for ranks that never come.
using Ranks = std::unique_ptr<HostCollectives>;

struct CalibrateArguments {
  CalibrationOptions options;
  std::string output, refresh, power_bursts, nvme;
  std::vector<std::string> earlier;
  bool quiet = false;
};

struct ProfileArguments {
  ProfileOptions options;
  std::string model, output, trace, backend = "auto";
  std::string deterministic;  ///< both, on, or empty: both
  std::optional<DataType> dtype;
  std::optional<std::int64_t> sequence;
  bool without_kernels = false, split_blocks = false, quiet = false;
  int ranks = kDefaultRanks;
  int compute_threads = 0;
};

/// Says on stderr how far a measurement is, and what it found.
class Sayings {
 public:
  explicit Sayings(bool quiet)
      : quiet_(quiet), line_(cli::progress_on_stderr(quiet), cli::ProgressLine::Stages::Said) {}

  OnProgress progress() { return line_.callback(); }
  std::function<void(const std::string&)> remark() {
    return [this](const std::string& what) {
      line_.clear();
      if (!quiet_) fmt::print(stderr, "{}\n", what);
    };
  }
  void end() { line_.clear(); }

 private:
  bool quiet_;
  cli::ProgressLine line_;
};

std::string folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// Checks the folder first: minutes of measuring must not end in "no such folder".
void require_folder_of(const std::string& option, const std::string& path) {
  if (!std::filesystem::is_directory(folder_of(path))) {
    throw InputError(option, "there is no folder " + folder_of(path),
                     "Make it, or choose another.");
  }
}

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
  require_folder_of("--power-bursts", arguments.power_bursts);
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
  cli::require_no_input(arguments.output, "--output", arguments.earlier);
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
  require_folder_of("--output", arguments.output);
  const bool keeps_bursts = !arguments.power_bursts.empty();
  bool kept_bursts = false;
  if (keeps_bursts) keep_power_bursts(arguments, kept_bursts);
  arguments.options.folder = measured_folder(arguments);
  Sayings sayings(arguments.quiet);
  arguments.options.progress = sayings.progress();
  arguments.options.remark = sayings.remark();
  if (!arguments.refresh.empty()) arguments.options.before = read_platform(arguments.refresh);
  const std::vector<EarlierLook> earlier = read_earlier(arguments);
  const std::optional<Platform> measured = measure(arguments, ranks);
  sayings.end();
  if (!measured) return kExitDone;
  const Platform platform = write_platform(*measured, earlier, arguments.output);
  fmt::print(stderr, "{}", describe(platform));
  for (const std::string& line : pooled_lines(platform)) fmt::print(stderr, "  {}\n", line);
  fmt::print(stderr, "written to {}\n", arguments.output);
  if (keeps_bursts && !kept_bursts) {
    throw Error("--power-bursts: there is nothing to write; " + platform.provenance.notes);
  }
  return kExitDone;
}

/// Profiles the model on `device`.
Profile profile_of(const ProfileArguments& arguments, const Architecture& architecture,
                   DataType dtype, const ProfileDevice& device) {
  if (!architecture.traced && !architecture.image_classifier) {
    return profile_language_model(architecture, dtype, arguments.options, device);
  }
  const Model model =
      make_model(architecture, arguments.model, dtype, arguments.options.sequence_length);
  return profile_model(model, arguments.options, device);
}

Profile profile_on_host(ProfileArguments& arguments, const Architecture& architecture) {
  ProfileOptions& options = arguments.options;
  options.compute_threads = arguments.compute_threads > 0
                                ? arguments.compute_threads
                                : std::max(1, usable_cores() / arguments.ranks);
  HostMeter meter;
  return profile_of(arguments, architecture, arguments.dtype.value_or(DataType::Float32),
                    {meter, processor_name(), {}});
}

/// Returns null if kernels cannot be traced: the profile goes without them.
std::unique_ptr<KernelTracer> make_tracer(CudaCalibrator& cuda, const ProfileArguments& arguments) {
  if (arguments.without_kernels) return nullptr;
  try {
    return cuda.kernel_tracer();
  } catch (const Error& error) {
    if (!arguments.trace.empty()) throw;
    fmt::print(stderr, "note: this profile has no kernels: {}\n", error.what());
    return nullptr;
  }
}

void write_trace_file(const std::string& path, const std::vector<KernelTrace>& traces,
                      const Profile& profile) {
  if (traces.empty()) {
    throw Error(fmt::format("--trace: there is nothing to write; {}", profile.provenance.notes));
  }
  std::ostringstream text;
  write_kineto_trace(text, traces, profile.device);
  write_file_atomically(path, text.str());
  fmt::print(stderr, "trace written to {}\n", path);
}

Profile profile_on_gpu(ProfileArguments& arguments, const Architecture& architecture) {
  const std::unique_ptr<CudaCalibrator> cuda = load_cuda_calibrator();
  const std::string others = other_work(*cuda, 1);
  if (!others.empty()) fmt::print(stderr, "note: {}\n", others);
  const std::unique_ptr<UnitMeter> meter = cuda->unit_meter(0);
  const std::unique_ptr<KernelTracer> tracer = make_tracer(*cuda, arguments);
  arguments.options.rule = {.min_repetitions = 10,
                            .max_repetitions = 1000,
                            .min_seconds = 0.1,
                            .max_seconds = 0.4,
                            .relative_error = 0.005};
  Profile profile =
      profile_of(arguments, architecture, arguments.dtype.value_or(DataType::BFloat16),
                 {*meter, cuda->device_name(0), cuda->versions(), tracer.get(),
                  cuda->issue(1).at(Lane::Compute), sustained_matmul_rate(*cuda)});
  if (!others.empty()) add_note(profile.provenance, others);
  return profile;
}

/// An image has as many tokens as its model says. Language models have 1024 unless --seq says else.
void settle_sequence(ProfileArguments& arguments, const Architecture& architecture) {
  constexpr std::int64_t kDefault = 1024;
  const auto& images = architecture.image_classifier;
  arguments.options.sequence_length =
      arguments.sequence.value_or(images ? images->num_tokens() : kDefault);
}

void require_tracing(const ProfileArguments& arguments, bool on_gpu) {
  if (!on_gpu) {
    throw InputError("--trace", "kernels are traced on GPUs only",
                     "Use --backend cuda, or leave --trace out.");
  }
  require_folder_of("--trace", arguments.trace);
}

int profile(ProfileArguments& arguments) {
  const bool on_gpu = uses_cuda(arguments.backend);
  require_folder_of("--output", arguments.output);
  if (!arguments.trace.empty()) require_tracing(arguments, on_gpu);
  Sayings sayings(arguments.quiet);
  arguments.options.progress = sayings.progress();
  arguments.options.remark = sayings.remark();
  arguments.options.both_kernels = arguments.deterministic != "on";
  if (!arguments.deterministic.empty() && !on_gpu) {
    sayings.remark()(
        "--deterministic: processors have deterministic kernels alone; these costs are "
        "those of on and of off");
  }
  std::vector<KernelTrace> traces;
  arguments.options.traced = [&](std::vector<KernelTrace> found) { traces = std::move(found); };
  const Architecture found = load_architecture(arguments.model);
  const Architecture architecture =
      arguments.split_blocks ? with_blocks(found, Blocks::Split) : found;
  settle_sequence(arguments, architecture);
  const Profile profile =
      on_gpu ? profile_on_gpu(arguments, architecture) : profile_on_host(arguments, architecture);
  sayings.end();
  write_file_atomically(arguments.output, to_json(profile));
  cli::print_costs(profile);
  fmt::print(stderr, "written to {}\n", arguments.output);
  if (!arguments.trace.empty()) write_trace_file(arguments.trace, traces, profile);
  return kExitDone;
}

/// Adds -o,--output, which is required, and its older name --out, which help does not show.
void add_output(CLI::App& verb, std::string& path, const std::string& help,
                const std::string& type) {
  CLI::Option* const output =
      verb.add_option("-o,--output", path, help)->required()->type_name(type);
  cli::add_hidden_alias(verb, "--out", output);
}

void add_calibrate(CLI::App& app, CalibrateArguments& arguments, Ranks& ranks,
                   cli::Action& action) {
  CLI::App* verb = app.add_subcommand(
      "calibrate",
      "Measure this machine; under mpirun, srun or torchrun, several and their network.");
  CalibrationOptions& options = arguments.options;
  verb->add_option("--backend", options.backend, "Use this backend: auto, cpu or cuda.")
      ->capture_default_str();
  CLI::Option* count =
      cli::add_count(*verb, "--gpus", options.ranks,
                     "Measure collectives for 1 to N processes or GPUs. Default: 2, or every GPU.");
  cli::add_hidden_alias(*verb, "--ranks", count);
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
  cli::add_quiet(*verb, arguments.quiet);
  add_output(*verb, arguments.output, "Write this platform file.", "PLATFORM.json");
  verb->callback([&] { action = [&] { return calibrate(arguments, ranks); }; });
}

void add_kernels_of_backward(CLI::App& verb, ProfileArguments& arguments) {
  verb.add_option(
          "--deterministic", arguments.deterministic,
          "Measure backward with both kinds of kernels on GPUs: deterministic ones, and the "
          "fastest, which tune --deterministic off needs; or with the former alone (on), "
          "which takes half of the time. Default: both.")
      ->check(CLI::IsMember({"both", "on"}));
}

void add_profile(CLI::App& app, ProfileArguments& arguments, cli::Action& action) {
  const std::map<std::string, DataType> dtypes(kShortDataTypeNames.begin(),
                                               kShortDataTypeNames.end());
  CLI::App* verb = app.add_subcommand("profile", "Measure a model's units.");
  ProfileOptions& options = arguments.options;
  options.micro_batches = {1, 2, 4};
  verb->add_option(
          "--model", arguments.model,
          "Profile this model: a folder with a config.json, such a file, or a built-in name.")
      ->required()
      ->type_name("MODEL");
  verb->add_option("--seq", arguments.sequence,
                   "Use sequences of this length. Default: 1024, or the tokens of an image.")
      ->check(cli::whole_number(1))
      ->type_name("N");
  verb->add_option("--micro-batches", options.micro_batches,
                   "Profile these micro-batch sizes, like 1,2,4.")
      ->delimiter(',')
      ->type_name("N,..")
      ->capture_default_str();
  verb->add_option("--dtype", arguments.dtype,
                   "Compute in fp32 or bf16. Default: fp32 on processors, bf16 on GPUs.")
      ->transform(CLI::CheckedTransformer(dtypes))
      ->type_name("TYPE");
  cli::add_count(*verb, "--compute-threads", arguments.compute_threads,
                 "Give one rank's compute lane N threads, on processors. Default: cores / ranks.");
  cli::add_hidden_alias(*verb, "--ranks",
                        cli::add_count(*verb, "--gpus", arguments.ranks,
                                       "Leave cores for so many ranks on this machine.")
                            ->capture_default_str());
  verb->add_option("--backend", arguments.backend, "Use this backend: auto, cpu or cuda.")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  add_kernels_of_backward(*verb, arguments);
  CLI::Option* without =
      verb->add_flag("--no-kernels", arguments.without_kernels, "Do not trace kernels on GPUs.");
  verb->add_option(
          "--trace", arguments.trace,
          "Also write a trace of one repetition of every unit, for Perfetto and other trace tools.")
      ->type_name("TRACE.json")
      ->excludes(without);
  verb->add_flag("--split-blocks", arguments.split_blocks,
                 "Make two units of each block: attention, and the perceptron or the experts. A "
                 "plan then chooses for each. Default: a block is one unit.");
  verb->add_option("--expert-ranks", options.expert_ranks,
                   "Also measure experts whose tokens travel between so many ranks, like 2,4. "
                   "Needs --split-blocks.")
      ->delimiter(',')
      ->type_name("N,..");
  verb->add_option("--tensor-ranks", options.tensor_ranks,
                   "Also measure attention and perceptrons whose tensors are split among so many "
                   "ranks, like 2,4. Needs --split-blocks.")
      ->delimiter(',')
      ->type_name("N,..");
  verb->add_option("--expert-capacity", options.expert_capacity,
                   "Give tokens that travel room for so many times the rows of balanced routing.")
      ->type_name("TIMES")
      ->capture_default_str();
  cli::add_quiet(*verb, arguments.quiet);
  add_output(*verb, arguments.output, "Write this profile file.", "PROFILE.json");
  verb->callback([&] { action = [&] { return profile(arguments); }; });
}

/// Adds the hidden verb that `calibrate` runs under mpirun.
void add_worker(CLI::App& app, CalibrateArguments& arguments, cli::Action& action) {
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

int run(int argc, char** argv, Ranks& ranks) {
  CLI::App app("Measure machines and models for the simulator.", "athanor-calibrate");
  app.set_version_flag("--version", cli::version_text());
  app.require_subcommand(1);
  CalibrateArguments machine;
  ProfileArguments model;
  cli::Action action;
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  // The path of the program is left out: it says nothing about what was measured.
  const std::string command = fmt::format("athanor {}", fmt::join(words.subspan(1), " "));
  machine.options.command = model.options.command = command;
  add_calibrate(app, machine, ranks, action);
  add_profile(app, model, action);
  add_worker(app, machine, action);
  return cli::parse_and_run(app, action, argc, argv);
}

}  // namespace
}  // namespace athanor

int main(int argc, char** argv) {
  athanor::Ranks ranks;
  const int code = athanor::run_main("athanor-calibrate", [&] {
    return athanor::without_frames([&] { return athanor::run(argc, argv, ranks); });
  });
  if (ranks && code != athanor::kExitDone) athanor::abort_job(code);
  return code;
}
