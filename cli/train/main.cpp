// SPDX-License-Identifier: Apache-2.0
// athanor-train: trains a language model under a plan.
#include "cli/common/command_line.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/clean.hpp"
#include "cli/train/inputs.hpp"
#include "cli/train/launch.hpp"
#include "cli/train/run_preparation.hpp"
#include "cli/train/train.hpp"
#include "executor/backend/backend.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/backend/cuda_plugin.hpp"
#include "executor/backend/host_backend.hpp"
#include "executor/ranks/connect.hpp"
#include "executor/rendezvous/interrupts.hpp"
#include "executor/rendezvous/launcher.hpp"
#include "executor/rendezvous/rank_feed.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/train/meet_watch.hpp"
#include "executor/units/torch_errors.hpp"
#include "executor/watch/job_watch.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace {

/// Watch of this process, its backend, and its connection to the other ranks.
struct Machine {
  std::unique_ptr<athanor::JobWatch> watch;
  std::unique_ptr<athanor::Collectives> collectives;  ///< between ranks on the CPU
  std::unique_ptr<athanor::Backend> backend;
};

void connect(const athanor::RankInfo& rank, const athanor::Bytes memory, bool cuda,
             Machine& machine) {
  if (cuda) {
    machine.backend = athanor::make_cuda_backend({.rank = rank, .memory_limit = memory});
  } else {
    machine.collectives = athanor::connect(rank);
    machine.backend = std::make_unique<athanor::HostBackend>(*machine.collectives, memory);
  }
  if (!athanor::meet_watch(*machine.watch, machine.backend->host_collectives())) {
    fmt::print(stderr,
               "athanor-train: rank {} reaches rank 0 through its collectives alone (a firewall?), "
               "so nobody notices if it is stopped\n",
               rank.rank);
  }
}

/// Whether this process starts those that train: several, or one that can be started again.
bool starts_processes(const athanor::cli::TrainArguments& arguments,
                      const athanor::RankInfo& rank) {
  const bool was_started_so = !athanor::environment_variable(athanor::kLauncherKey).empty();
  const bool restarts = arguments.max_restarts > 0 && !was_started_so;
  if (restarts && rank.world_size > 1) {
    throw athanor::InputError("--max-restarts",
                              "another program launched these processes, and it alone can start "
                              "them again",
                              "Give the option to torchrun, or start the processes with --gpus.");
  }
  return rank.world_size == 1 && (arguments.num_processes > 1 || restarts);
}

/// Checks everything, then trains in this process, or in the processes that --gpus and
/// --max-restarts ask for.
int run(athanor::cli::TrainArguments& arguments, std::span<char*> argv, Machine& machine) {
  athanor::cli::settle(arguments);
  const athanor::RankInfo rank = athanor::rank_from_environment();
  const bool launches = starts_processes(arguments, rank);
  if (!launches) {
    machine.watch = std::make_unique<athanor::JobWatch>(rank, "athanor-train");
    machine.watch->set_activity("it reads its inputs");
  }
  athanor::cli::TrainInputs inputs =
      athanor::cli::read_inputs(arguments, /*looks_closely=*/rank.rank == 0);
  athanor::check_world_size(inputs.plan.world_size, rank, arguments.num_processes);
  if (rank.rank == 0) {
    for (const auto& data : {inputs.data, inputs.eval_data}) {
      if (data) std::visit([](const auto& samples) { samples.check_all(); }, *data);
    }
  }
  if (arguments.dry_run) {
    fmt::print("{}", describe(inputs));
    for (const std::string& remark : athanor::cli::remarks_of_dry_run(arguments, inputs)) {
      fmt::print(stderr, "athanor-train: {}\n", remark);
    }
    return athanor::kExitDone;
  }
  // Other machines may not see the export, and would wait for this one.
  const bool has_export =
      arguments.export_folder.empty() || (inputs.start.exported && rank.world_size == 1);
  if (athanor::cli::is_finished(arguments, inputs.start) && has_export) {
    if (rank.rank == 0) {
      athanor::cli::free_left_snapshot(inputs.start);
      fmt::print(stderr, "{}", athanor::cli::nothing_left(arguments, inputs));
    }
    return athanor::kExitDone;
  }
  const bool cuda = uses_cuda(arguments, inputs);
  check_copies(arguments, inputs, launches);
  if (launches) return athanor::cli::launch(arguments, inputs, argv);
  if (rank.rank == 0 && !arguments.quiet) {
    fmt::print(
        stderr, "{} starts {}\n{}{}{}", inputs.architecture.name, describe_start(inputs),
        athanor::cli::describe_patterns(inputs.plan), athanor::cli::describe_moments(inputs.plan),
        athanor::cli::describe_kernels(inputs) + athanor::cli::describe_graphs(inputs.plan, cuda));
  }
  machine.watch->set_activity("it connects with the other ranks");
  connect(rank, inputs.limits.gpu, cuda, machine);
  machine.watch->set_activity("it looks for the newest step that all ranks have");
  ask_ranks(arguments, machine.backend->host_collectives(), inputs);
  machine.watch->set_activity("it prepares the run folder, or waits for that");
  const std::string run_json =
      athanor::cli::run_json(arguments, static_cast<int>(argv.size()), argv.data());
  return athanor::cli::train(arguments, inputs, run_json, *machine.backend, *machine.watch);
}

int parse_and_run(std::span<char*> argv, Machine& machine) {
  if (argv.size() > 1 && std::string_view(argv[1]) == "clean") {
    return athanor::cli::clean(static_cast<int>(argv.size()) - 1, argv.data() + 1);
  }
  CLI::App app("Train a language model under a plan.", "athanor-train");
  app.set_version_flag("--version", athanor::cli::version_text());
  athanor::cli::TrainArguments arguments;
  athanor::cli::add_train_options(app, arguments);
  // `athanor train ..` passes its verb on. It is dropped: without it, --config files are flat.
  std::vector<char*> words(argv.begin(), argv.end());
  if (words.size() > 1 && std::string_view(words[1]) == "train") words.erase(words.begin() + 1);
  athanor::cli::Action action = [&] { return run(arguments, argv, machine); };
  return athanor::cli::parse_and_run(app, action, static_cast<int>(words.size()), words.data());
}

/// Leaves the job and returns the exit code of this process. A failure ends the whole job.
int end(int code, Machine& machine) {
  const bool has_failed = code != athanor::kExitDone && code != athanor::kExitInterrupted;
  const bool has_ranks = machine.backend && machine.backend->collectives().world_size() > 1;
  if (!has_failed) {
    if (machine.watch) machine.watch->set_activity("it leaves the job");
    machine.backend.reset();
    machine.collectives.reset();
  }
  if (!machine.watch) return code;
  machine.watch->leave(code);
  if (has_failed && has_ranks) athanor::abort_job(code);
  // Athanor's launcher knows the code by now. To mpirun it would be a failure.
  return code == athanor::kExitInterrupted && machine.watch->has_launcher() ? athanor::kExitDone
                                                                            : code;
}

}  // namespace

int main(int argc, char** argv) {
  // It outlives a failure, because an orderly end of MPI or NCCL would wait for ranks that never
  // come.
  athanor::catch_interrupts();
  Machine machine;
  const int code = athanor::run_main("athanor-train", [&] {
    return athanor::without_frames(
        [&] { return parse_and_run({argv, static_cast<std::size_t>(argc)}, machine); });
  });
  return end(code, machine);
}
