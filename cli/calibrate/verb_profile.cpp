// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/verb_profile.hpp"

#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/device/other_work.hpp"
#include "calibrate/kernels/kineto_trace.hpp"
#include "calibrate/machine/cuda_machine.hpp"
#include "calibrate/machine/machine.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "cli/calibrate/measurement.hpp"
#include "cli/calibrate/print_profile.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/traced/make_model.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/model/language_models.hpp"
#include "sim/model/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace athanor::cli {
namespace {

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

Profile profile_on_gpu(ProfileArguments& arguments, const Architecture& architecture,
                       Sayings& sayings) {
  const std::unique_ptr<CudaCalibrator> cuda = load_cuda_calibrator();
  const std::string others = other_work(*cuda, 1);
  if (!others.empty()) sayings.warn()(others);
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
  require_writable("--trace", arguments.trace);
}

/// Refuses to measure in several processes at once: each would slow the others, and all would write
/// the same file.
void require_one_process() {
  const int processes = rank_from_environment().world_size;
  if (processes == 1) return;
  throw InputError("profile",
                   fmt::format("measures in one process, and a launcher has started {}", processes),
                   "Start it without mpirun, srun or torchrun; --gpus N leaves cores for N ranks.");
}

/// Says which options have no effect on this kind of device.
void remark_on_idle_options(const ProfileArguments& arguments, bool on_gpu, Sayings& sayings) {
  if (!arguments.deterministic.empty() && !on_gpu) {
    sayings.remark()(
        "--deterministic: processors have deterministic kernels alone; these costs are "
        "those of on and of off");
  }
  if (arguments.without_kernels && !on_gpu) {
    sayings.remark()("--no-kernels: has no effect, because kernels are traced on GPUs only");
  }
  if (arguments.compute_threads > 0 && on_gpu) {
    sayings.remark()("--compute-threads: has no effect, because a GPU computes");
  }
}

int profile(ProfileArguments& arguments) {
  require_one_process();
  const bool on_gpu = uses_cuda(arguments.backend);
  require_writable("--output", arguments.output);
  if (!arguments.trace.empty()) require_tracing(arguments, on_gpu);
  Sayings sayings(arguments.quiet);
  arguments.options.progress = sayings.progress();
  arguments.options.remark = sayings.remark();
  arguments.options.both_kernels = arguments.deterministic != "on";
  remark_on_idle_options(arguments, on_gpu, sayings);
  std::vector<KernelTrace> traces;
  arguments.options.traced = [&](std::vector<KernelTrace> found) { traces = std::move(found); };
  const Architecture found = load_architecture(arguments.model);
  const Architecture architecture =
      arguments.split_blocks ? with_blocks(found, Blocks::Split) : found;
  settle_sequence(arguments, architecture);
  const std::string others = others_on_host(sayings);
  Profile profile = on_gpu ? profile_on_gpu(arguments, architecture, sayings)
                           : profile_on_host(arguments, architecture);
  if (!others.empty()) add_note(profile.provenance, others);
  sayings.end();
  write_file_atomically(arguments.output, to_json(profile));
  print_costs(profile);
  fmt::print(stderr, "written to {}\n", arguments.output);
  if (!arguments.trace.empty()) write_trace_file(arguments.trace, traces, profile);
  return kExitDone;
}

void add_kernels_of_backward(CLI::App& verb, ProfileArguments& arguments) {
  verb.add_option(
          "--deterministic", arguments.deterministic,
          "Measure backward with both kinds of kernels on GPUs: deterministic ones, and the "
          "fastest, which tune --deterministic off needs; or with the former alone (on), "
          "which takes half of the time. Default: both.")
      ->check(CLI::IsMember({"both", "on"}));
}

}  // namespace

void add_profile(CLI::App& app, ProfileArguments& arguments, Action& action) {
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
      ->check(whole_number(1))
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
  add_count(*verb, "--compute-threads", arguments.compute_threads,
            "Give one rank's compute lane N threads, on processors. Default: cores / ranks.");
  add_hidden_alias(
      *verb, "--ranks",
      add_count(*verb, "--gpus", arguments.ranks, "Leave cores for so many ranks on this machine.")
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
  CLI::Option* expert_ranks =
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
      ->needs(expert_ranks)
      ->type_name("TIMES")
      ->capture_default_str();
  add_quiet(*verb, arguments.quiet);
  add_output(*verb, arguments.output, "Write this profile file.", "PROFILE.json");
  verb->callback([&] { action = [&] { return profile(arguments); }; });
}

}  // namespace athanor::cli
