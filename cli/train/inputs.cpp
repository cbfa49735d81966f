// SPDX-License-Identifier: Apache-2.0
#include "cli/train/inputs.hpp"

#include "cli/common/plan_paths.hpp"
#include "cli/train/run_settings.hpp"
#include "executor/backend/cuda_plugin.hpp"
#include "executor/backend/scratch_file.hpp"
#include "executor/batches/token_batches.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/staged_state.hpp"
#include "executor/io/file_system.hpp"
#include "executor/io/weight_files.hpp"
#include "executor/job/run_record.hpp"
#include "executor/memory/memory_check.hpp"
#include "executor/memory/memory_pools.hpp"
#include "executor/snapshot/held_memory.hpp"
#include "executor/snapshot/peer_ranks.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "executor/snapshot/snapshot_log.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/base/printable.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/snapshot_way.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/patterns/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace athanor::cli {
namespace {

/// Returns the option, else the path that the plan names, beside the plan. Empty if neither is
/// given.
std::string input_path(const std::string& option, const std::string& in_plan,
                       const std::string& plan) {
  return option.empty() && !in_plan.empty() ? resolved_path(in_plan, plan) : option;
}

void check_same_model(const Architecture& model, const Profile& profile) {
  if (hash_parameters(model) == hash_parameters(profile.architecture)) return;
  throw InputError("--model",
                   fmt::format("'{}' is not the model of the profile, '{}'", model.name,
                               profile.architecture.name),
                   "Train the profiled model, or profile and tune this one.");
}

MemoryLimits limits_of(const TrainArguments& arguments, const std::optional<Platform>& platform) {
  MemoryLimits limits{.gpu = arguments.device_memory, .host = usable_memory()};
  if (limits.gpu == 0 && platform) limits.gpu = platform->device_memory;
  // The limit is at least 1, because 0 would mean no limit on a full disk.
  if (!arguments.nvme.empty())
    limits.nvme = std::max<Bytes>(1, free_bytes(arguments.nvme, "--nvme"));
  return limits;
}

/// Refuses documents that share a sequence where the model's attention would cross them.
void check_documents(const Architecture& model, const TrainingData& data, const char* option) {
  const auto* packed = std::get_if<PackedDataset>(&data);
  if (!model.traced || model.traced->documents || packed == nullptr) return;
  if (packed->index().documents <= packed->index().sequences) return;
  throw InputError(option,
                   fmt::format("{} documents share {} sequences, and attention of '{}' would cross "
                               "them",
                               packed->index().documents, packed->index().sequences, model.name),
                   "Trace the model again with --documents.");
}

void open_data(TrainArguments& arguments, TrainInputs& in) {
  const TokenFormat format = parse_token_format(arguments.tokens_dtype, "--tokens-dtype");
  const auto open = [&](const std::vector<std::string>& paths) {
    if (const auto& images = in.architecture.image_classifier) {
      return std::make_shared<const TrainingData>(open_image_data(paths, *images));
    }
    return std::make_shared<const TrainingData>(open_training_data(
        paths, format, in.architecture.vocab_size().value(), in.plan.sequence_length));
  };
  const std::int64_t sequence = in.plan.sequence_length;
  in.data = open(arguments.data);
  check_documents(in.architecture, *in.data, "--data");
  Bytes packing = packing_bytes_per_sample(*in.data, sequence);
  if (!arguments.eval_data.empty()) {
    in.eval_data = open(arguments.eval_data);
    check_documents(in.architecture, *in.eval_data, "--eval-data");
    packing = std::max(packing, packing_bytes_per_sample(*in.eval_data, sequence));
  }
  // The profile of a plan to which the run has changed counts it already.
  if (!in.adopted) in.profile.batch_bytes_per_sample += packing;
  settle_steps(arguments, num_samples(*in.data, sequence), in.plan.global_batch());
}

/// Returns the steps in which every sample is trained on once.
std::int64_t steps_per_epoch(const TrainInputs& in) {
  const std::int64_t samples = num_samples(*in.data, in.plan.sequence_length);
  return (samples + in.plan.global_batch() - 1) / in.plan.global_batch();
}

/// Returns the hash by which a snapshot is known to be of this plan; 0 where it takes none.
std::uint64_t snapshot_layout(const TrainInputs& in) {
  if (in.plan.snapshot == Snapshot::None) return 0;
  return layout_hash(lower(in.profile, in.plan), in.plan);
}

/// Refuses a start for which shared memory has no room. Files that the run itself has left there
/// are removed first.
void check_room_for_snapshot(const TrainInputs& in) {
  if (in.plan.snapshot == Snapshot::None || in.start.memory) return;
  Bytes needed = in.ranks_per_node() * shared_bytes(static_bytes(lower(in.profile, in.plan)));
  if (!in.start.run.empty()) {
    for (const RankMemory& left : list_rank_memory(kSharedMemoryFolder, in.start.run)) {
      needed -= left.bytes;
    }
  }
  check_shared_room(kSharedMemoryFolder, needed);
}

/// Counts what other runs hold of the host's memory, which limits do not.
void look_at_held_memory(TrainInputs& in) {
  std::vector<RankMemory> others = list_rank_memory(kSharedMemoryFolder);
  std::erase_if(others, [&](const RankMemory& memory) { return memory.run == in.start.run; });
  if (others.empty()) return;
  const TierBytes peak = peak_bytes(lower(in.profile, in.plan));
  const std::string remark = remark_on_held_memory(
      others, in.ranks_per_node() * (peak.pinned + peak.host), in.limits.host);
  if (!remark.empty()) in.start.remarks.push_back(remark);
}

/// Says where files lie on another kind of file system than the one that was calibrated.
void look_at_file_system(const TrainArguments& arguments, TrainInputs& in) {
  if (!uses_nvme(in.plan) || !in.platform) return;
  const std::string remark = remark_on_other_file_system(arguments.nvme, in.platform->file_system);
  if (!remark.empty()) in.start.remarks.push_back(remark);
}

/// Takes the plan with the profile and the platform that it was made from.
void take_adopted(const AdoptedPlan& adopted, TrainInputs& in) {
  in.plan = read_plan(adopted.folder + "/plan.json");
  in.profile = read_profile(adopted.folder + "/profile.json");
  in.platform = read_platform(adopted.folder + "/platform.json");
  in.adopted = adopted;
}

/// A run that has changed its plan goes on under that, though its command names the first one.
void read_plan_and_machine(const TrainArguments& arguments, TrainInputs& in) {
  in.plan = in.asked = read_plan(arguments.plan);
  if (arguments.retune && arguments.resume) {
    if (const auto adopted = newest_adopted_plan({arguments.out}, in.asked)) {
      take_adopted(*adopted, in);
    }
  }
  if (!arguments.snapshot.empty()) {
    const SnapshotWay way = parse_snapshot_way(arguments.snapshot, /*takes_every=*/false);
    in.plan.snapshot = way.snapshot();
    in.plan.snapshot_every = way.every;
    in.plan.snapshot_copies = way.copies;
    in.plan.snapshot_send = way.send;
  }
  if (in.adopted) return;
  const std::string profile = input_path(arguments.profile, in.plan.profile_path, arguments.plan);
  if (profile.empty()) {
    throw InputError(arguments.plan + ":profile_path", "is empty", "Name it with --profile.");
  }
  in.profile = read_profile(profile);
  in.asked.validate(in.profile.architecture, arguments.plan);
  const std::string platform =
      input_path(arguments.platform, in.plan.platform_path, arguments.plan);
  if (!platform.empty()) in.platform = read_platform(platform);
}

/// Takes the plan's choice of kernels, and refuses another one: its prediction is for the plan's.
void settle_kernels(TrainArguments& arguments, const Plan& plan) {
  const std::string planned = plan.deterministic ? "on" : "off";
  if (arguments.deterministic.empty()) arguments.deterministic = planned;
  if (arguments.deterministic == planned) return;
  throw InputError(
      "--deterministic",
      fmt::format("{}, but the plan was made for {}", arguments.deterministic, planned),
      fmt::format("Leave the option out, or tune a plan for it: athanor tune "
                  "--deterministic {}",
                  arguments.deterministic));
}

/// Takes the choice of graphs that is asked for, else the plan's. Returns a remark where the data
/// keep a plan from its own.
std::string settle_graphs(const TrainArguments& arguments, TrainInputs& in) {
  Plan& plan = in.plan;
  if (!arguments.cuda_graphs.empty()) plan.cuda_graphs = arguments.cuda_graphs == "on";
  if (!plan.cuda_graphs) return "";
  if (packing_bytes_per_sample(*in.data, plan.sequence_length) == 0) return "";
  if (!arguments.cuda_graphs.empty()) {
    throw InputError("--cuda-graphs", "on, but documents share sequences, each time otherwise",
                     "Leave the option out.");
  }
  plan.cuda_graphs = false;
  return "CUDA graphs, which the plan asks for, are not used: documents share sequences, each "
         "time otherwise. Steps take longer than predicted.";
}

/// Sets host memory aside for the copy that checkpoints are written from, and refuses to write them
/// from versions that the plan does not have.
void settle_async_checkpoint(const TrainArguments& arguments, TrainInputs& in) {
  if (!arguments.checkpoint_interval.is_on()) return;
  if (arguments.async_checkpoint == "version" && in.plan.snapshot != Snapshot::Versions) {
    throw InputError("--async-checkpoint", "version, but the plan keeps no versions of its state",
                     "Give --snapshot versions (state on the host), or --async-checkpoint copy.");
  }
  if (arguments.async_checkpoint != "copy") return;
  in.checkpoint_copy = in.ranks_per_node() * staged_bytes(lower(in.profile, in.plan));
  // The limit is at least 1, because 0 would mean no limit.
  in.limits.host = std::max<Bytes>(1, in.limits.host - in.checkpoint_copy);
}

void check_fits(const TrainInputs& in) {
  const std::string aside =
      in.checkpoint_copy == 0
          ? ""
          : fmt::format("{} are set aside for --async-checkpoint copy, which can be left out",
                        format_bytes(in.checkpoint_copy));
  check_memory(in.profile, in.plan, in.ranks_per_node(), in.limits, aside);
}

}  // namespace

TrainInputs read_inputs(TrainArguments& arguments, bool looks_closely) {
  TrainInputs in;
  read_plan_and_machine(arguments, in);
  settle_kernels(arguments, in.plan);
  ModelSource model =
      open_model(arguments.model, arguments.fresh ? Weights::Fresh : Weights::AsFound,
                 blocks_of(in.profile.architecture));
  in.architecture = std::move(model.architecture);
  in.weights = std::move(model.weights);
  check_same_model(in.architecture, in.profile);
  open_data(arguments, in);
  const std::string remark = settle_graphs(arguments, in);
  check_nvme_folder(in.plan, arguments.nvme);
  in.limits = limits_of(arguments, in.platform);
  settle_async_checkpoint(arguments, in);
  check_fits(in);

  const std::uint64_t layout = snapshot_layout(in);
  in.start = plan_start(arguments, in.architecture, in.plan, layout, looks_closely);
  if (!remark.empty()) in.start.remarks.push_back(remark);
  if (in.adopted) {
    in.start.remarks.push_back("going on under the plan that this run has changed to, " +
                               in.adopted->folder + ", not that of --plan");
  }
  check_room_for_snapshot(in);
  for (std::string& idle : idle_options(arguments, in)) in.start.remarks.push_back(std::move(idle));
  if (looks_closely) look_at_held_memory(in);
  if (looks_closely) look_at_file_system(arguments, in);
  return in;
}

TrainInputs inputs_under(const TrainArguments& arguments, const TrainInputs& inputs,
                         const AdoptedPlan& adopted) {
  TrainInputs in = inputs;
  take_adopted(adopted, in);
  static_cast<void>(settle_graphs(arguments, in));  // said at the start
  in.start.run = run_identity_in(read_run_record(in.start.folder));
  in.start.memory.reset();
  check_nvme_folder(in.plan, arguments.nvme);
  check_fits(in);
  check_room_for_snapshot(in);
  return in;
}

void start_again(const TrainArguments& arguments, TrainInputs& inputs) {
  const std::optional<ExportRecord> exported = std::move(inputs.start.exported);
  inputs.start = plan_start(arguments, inputs.architecture, inputs.plan, snapshot_layout(inputs),
                            /*looks_closely=*/false);
  inputs.start.exported = exported;
  inputs.start.asks_ranks = false;  // the checkpoint has just been written, and memory is freed
}

void ask_ranks(const TrainArguments& arguments, Collectives& ranks, TrainInputs& inputs) {
  complete_start(arguments, inputs.architecture, inputs.plan, snapshot_layout(inputs), ranks,
                 inputs.start);
}

bool uses_cuda(const TrainArguments& arguments, const TrainInputs& inputs) {
  if (arguments.backend != "auto") return arguments.backend == "cuda";
  return inputs.platform ? inputs.platform->backend == "cuda" : why_no_cuda().empty();
}

void check_copies(const TrainArguments& arguments, const TrainInputs& inputs, bool launches) {
  if (inputs.plan.snapshot_copies == 1) return;
  if (uses_cuda(arguments, inputs)) {
    throw InputError("plan:snapshot_copies",
                     "copies on other machines are kept by ranks of the CPU backend alone",
                     "Set snapshot_copies to 1, or give --snapshot versions here.");
  }
  // Ranks that are there already check that they are on several machines.
  if (launches) static_cast<void>(peer_ranks(0, inputs.plan.world_size, inputs.plan.world_size));
}

std::string describe_start(const TrainInputs& in) {
  if (in.start.asks_ranks) return "from the newest step that its machines have";
  if (in.start.memory) return fmt::format("from memory, after step {}", in.start.memory->steps);
  if (in.start.checkpoint) return "from checkpoint " + printable(in.start.checkpoint->folder);
  return in.weights ? "from the weights of its folder" : "from fresh weights";
}

std::string describe_patterns(const Plan& plan) {
  if (num_travelling_units(plan) == 0) return "";
  return fmt::format("pattern    {}: losses agree to rounding with plans whose weights travel\n",
                     travel_text(plan));
}

std::string describe_moments(const Plan& plan) {
  if (plan.adam_state == AdamState::Float32) return "";
  const bool in_int8 = plan.adam_state == AdamState::Int8;
  return fmt::format("moments    {}: losses are not those of moments in fp32\n",
                     in_int8 ? "int8, with scales of blocks" : "bf16, rounded stochastically");
}

std::string describe_kernels(const TrainInputs& in) {
  if (in.plan.deterministic) return "";
  return in.profile.always_deterministic
             ? "kernels    deterministic, although the plan does not ask for it: there are no "
               "others\n"
             : "kernels    not deterministic: losses agree to rounding from run to run, not to the "
               "bit\n";
}

std::string describe_graphs(const Plan& plan, bool cuda) {
  if (!plan.cuda_graphs) return "";
  return cuda ? "graphs     CUDA graphs, recorded in the second step\n"
              : "graphs     none, although the plan asks for CUDA graphs: this is no GPU\n";
}

std::vector<std::string> remarks_of_dry_run(const TrainArguments& arguments,
                                            const TrainInputs& inputs) {
  std::vector<std::string> remarks = inputs.start.remarks;
  const std::string lacking = uses_cuda(arguments, inputs) ? why_no_cuda() : "";
  if (!lacking.empty()) remarks.push_back("this machine cannot train it: " + lacking);
  return remarks;
}

std::string describe(const TrainInputs& in) {
  const TierBytes peak = peak_bytes(lower(in.profile, in.plan));
  const std::string held_out =
      in.eval_data ? fmt::format("held out   {}; {} sequences\n", describe(*in.eval_data),
                                 num_samples(*in.eval_data, in.plan.sequence_length))
                   : "";
  const std::string copy =
      in.checkpoint_copy > 0
          ? fmt::format("copy       {} of host memory per process, for --async-checkpoint\n",
                        format_bytes(in.checkpoint_copy / in.ranks_per_node()))
          : "";
  return fmt::format(
      "model      {} ({} parameters), {}\n"
      "plan       {}: {} processes, micro-batch {}, accumulation {}, sequence {}\n"
      "{}{}{}"
      "data       {}; {} steps go through it\n"
      "{}"
      "memory     device {}, pinned {}, host {}, nvme {} per process\n{}",
      in.architecture.name, in.architecture.num_parameters(), describe_start(in), in.plan.name,
      in.plan.world_size, in.plan.micro_batch, in.plan.accumulation, in.plan.sequence_length,
      describe_patterns(in.plan), describe_moments(in.plan), describe_kernels(in),
      describe(*in.data), steps_per_epoch(in), held_out, format_bytes(peak.gpu),
      format_bytes(peak.pinned), format_bytes(peak.host), format_bytes(peak.nvme), copy);
}

}  // namespace athanor::cli
