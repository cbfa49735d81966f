// SPDX-License-Identifier: Apache-2.0
#include "cli/train/arguments.hpp"

#include "cli/common/command_line.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

namespace athanor::cli {
namespace {

void add_inputs(CLI::App& app, TrainArguments& a) {
  app.add_option("--plan", a.plan, "Plan (athanor tune)")->required();
  app.add_option("--model", a.model, "Built-in name, config.json, or Hugging Face folder")
      ->required();
  app.add_flag("--fresh", a.fresh, "Start from fresh weights, though the model's folder has some");
  app.add_option(
         "--data", a.data,
         "Folder of `athanor tokenize`, tokens (llm.c, nanoGPT, Megatron), or text for a model "
         "of bytes. Tokens and text: files or patterns such as 'train_*.bin', read one after the "
         "other")
      ->required()
      ->type_name("FILE");
  app.add_option("--tokens-dtype", a.tokens_dtype,
                 "Type of tokens in a file without header: auto, bytes, uint16 or uint32");
  app.add_option("--profile", a.profile, "Profile of the model (default: the plan's)");
  app.add_option("--platform", a.platform, "Platform of this machine (default: the plan's)");
}

void add_evaluation(CLI::App& app, TrainArguments& a) {
  auto* const data =
      app.add_option("--eval-data", a.eval_data, "Data to evaluate the model on, as --data")
          ->type_name("FILE");
  add_count(app, "--eval-every", a.eval_every,
            "Steps between evaluations (default: a tenth of all; the end is always evaluated)")
      ->needs(data);
}

void add_snapshots_and_tuning(CLI::App& app, TrainArguments& a) {
  app.add_option(
         "--snapshot", a.snapshot,
         "Let training survive the death of its processes: redo keeps state and gradients "
         "in /dev/shm, versions keeps two versions of the state there, copy does so with "
         "state on the host and copies what is on the GPU there, and --resume goes on from "
         "there; copy,every=N copies in one of N steps, with all state on the GPU; with "
         "copies=2, another machine keeps each version too, sent as send= says: "
         "direct, or by one of the schemes blocking, naive, chunked and pipelined (default: "
         "the plan's)")
      ->type_name("WAY[,every=N][,copies=2[,send=SCHEME]]");
  app.add_option("--repredict", a.repredict,
                 "Predict the step again from the rates of the first steps: beside training, at "
                 "the lowest priority; wait for it before going on; or off")
      ->check(CLI::IsMember({"beside", "wait", "off"}))
      ->capture_default_str();
  app.add_option("--retune", a.retune_margin_text,
                 "Tune again with the rates of the run itself, beside training at the lowest "
                 "priority, and go on under the best plan where it is faster by more than SHARE of "
                 "a step (default 5%). Losses stay the same to the bit, and to rounding where NCCL "
                 "adds for more than two GPUs")
      ->expected(0, 1)
      ->type_name("SHARE");
}

void add_run(CLI::App& app, TrainArguments& a) {
  auto* const steps = add_count(app, "--steps", a.steps, "Train for this many steps in all");
  app.add_option("--epochs", a.epochs, "Train for as many steps as go this often through the data")
      ->excludes(steps);
  add_hidden_alias(app, "--out",
                   app.add_option("-o,--output", a.out, "Run folder")->type_name("RUN"));
  app.add_option("--backend", a.backend,
                 "Use this backend: auto (the platform's, else a GPU if there is one), cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  add_hidden_alias(app, "--nproc",
                   add_count(app, "--gpus", a.num_processes,
                             "Start that many ranks on this machine, one for each GPU"));
  app.add_option("--max-restarts", a.max_restarts,
                 "Start training again this often, from its newest snapshot or checkpoint, where "
                 "processes are killed or hang")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--seed", a.seed, "Seed of fresh weights and of --shuffle")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()));
  app.add_option("--deterministic", a.deterministic,
                 "Insist on a plan with this choice (default: the plan's). on: losses are the same "
                 "to the bit whatever the plan; off: they agree to rounding from run to run")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  app.add_option("--cuda-graphs", a.cuda_graphs,
                 "Issue each phase of a unit as one CUDA graph (default: the plan's choice, which "
                 "its prediction is for). Losses are the same to the bit")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  app.add_flag("--shuffle", a.shuffle,
               "Take the data's sequences in an order of the seed, another one in every epoch "
               "(default: as they are stored)");
  app.add_option("--metrics", a.metrics,
                 "Write metrics.jsonl alone, or also event files that TensorBoard shows")
      ->check(CLI::IsMember({"jsonl", "tensorboard"}))
      ->capture_default_str();
}

void add_checkpoints(CLI::App& app, TrainArguments& a) {
  app.add_option("--checkpoint-every", a.checkpoint_every,
                 "Steps (500) or time (600s, 10m) between checkpoints; 0: none, not at the end "
                 "either")
      ->type_name("N|TIME")
      ->capture_default_str();
  app.add_option("--async-checkpoint", a.async_checkpoint,
                 "Write checkpoints while training goes on, but for the last. copy: training stops "
                 "until the state is copied; the copy takes 12 bytes of host memory a parameter. "
                 "version: no copy and no memory, with --snapshot versions; the step after the "
                 "next waits until the disk is done")
      ->check(CLI::IsMember({"off", "copy", "version"}))
      ->capture_default_str();
  add_count(app, "--keep-last", a.keep_last, "Keep this many checkpoints");
  app.add_option("--resume", a.resume_from,
                 "Go on from the newest checkpoint or snapshot of RUN (default: --output), or from "
                 "RUN/checkpoints/step-..")
      ->expected(0, 1)
      ->type_name("RUN");
  app.add_option("--export", a.export_folder, "Write the weights as a Hugging Face folder");
}

void add_machine(CLI::App& app, TrainArguments& a) {
  add_hidden_alias(
      app, "--device-memory",
      add_size(app, "--gpu-memory", a.device_memory, "Limit per GPU (default: the platform's)"));
  app.add_option("--nvme", a.nvme, "Folder on the NVMe on which the plan keeps optimizer state");
  app.add_option("--deadline", a.deadline,
                 "Take a rank to hang after this many seconds without progress");
  app.add_flag("--dry-run", a.dry_run, "Check everything, start nothing");
  add_quiet(app, a.quiet);
}

void add_optimizer(CLI::App& app, TrainArguments& a) {
  app.add_option("--lr", a.learning_rate, "Peak learning rate")->capture_default_str();
  app.add_option("--min-lr", a.minimum_learning_rate, "Learning rate at the end")
      ->capture_default_str();
  app.add_option("--warmup-steps", a.warmup_steps, "Steps of linear warm-up")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--schedule", a.schedule, "Decay after warm-up: cosine, linear or constant")
      ->capture_default_str();
  app.add_option("--weight-decay", a.weight_decay,
                 "Weight decay of matrices; other parameters have none")
      ->capture_default_str();
  app.add_option("--beta1", a.beta1, "Decay of AdamW's first moment")->capture_default_str();
  app.add_option("--beta2", a.beta2, "Decay of AdamW's second moment")->capture_default_str();
  app.add_option("--epsilon", a.epsilon, "AdamW's epsilon")->capture_default_str();
}

void check_range(const char* option, double value, double minimum, double maximum) {
  if (std::isfinite(value) && value >= minimum && value <= maximum) return;
  throw InputError(option, fmt::format("{} is out of range", value),
                   fmt::format("Use a number from {} to {}.", minimum, maximum));
}

/// Whether an option was given whose value may be left out. Files of --config have to give one, so
/// true stands for none, and false for no such option.
bool is_given(const CLI::App& app, const char* option, std::string& value) {
  if (app.count(option) == 0 || value == "false") return false;
  if (value == "true") value.clear();
  return true;
}

/// Whether --resume names a checkpoint, and not the run folder around it.
bool names_checkpoint(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path / "checkpoints", error)) return false;
  return std::filesystem::exists(path / "state.json", error) ||
         parse_checkpoint_name(path.filename().string()).has_value();
}

void settle_resume(TrainArguments& a) {
  std::filesystem::path from = a.resume_from.empty() ? a.out : a.resume_from;
  if (!from.has_filename()) from = from.parent_path();  // a slash at the end
  if (names_checkpoint(from)) {
    a.resume_checkpoint = from.string();
    // A copy elsewhere is of no run folder.
    const std::filesystem::path around = std::filesystem::absolute(from).parent_path();
    if (around.filename() == "checkpoints") a.resume_run = around.parent_path().string();
  } else {
    a.resume_run = from.string();
  }
  if (a.out.empty()) a.out = a.resume_run;
}

void settle_retune(TrainArguments& a) {
  if (!a.retune_margin_text.empty()) {
    a.retune_margin = parse_share(a.retune_margin_text, "--retune");
  }
  if (a.repredict == "off") {
    throw InputError("--retune", "needs the rates that --repredict off leaves out",
                     "Leave out one of the two.");
  }
  if (!a.checkpoint_interval.is_on()) {
    throw InputError("--retune", "changes the plan at a checkpoint, and there are none",
                     "Leave out --checkpoint-every 0, or --retune.");
  }
}

}  // namespace

void add_train_options(CLI::App& app, TrainArguments& arguments) {
  add_config(app);
  add_inputs(app, arguments);
  add_evaluation(app, arguments);
  add_run(app, arguments);
  add_checkpoints(app, arguments);
  add_machine(app, arguments);
  add_snapshots_and_tuning(app, arguments);
  add_optimizer(app, arguments);
  app.callback([&app, &arguments] {
    arguments.resume = is_given(app, "--resume", arguments.resume_from);
    arguments.retune = is_given(app, "--retune", arguments.retune_margin_text);
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() > 0) arguments.given.insert(option->get_name());
    }
    if (app.count("--epochs") > 0) check_range("--epochs", arguments.epochs, 1e-9, 1e6);
  });
}

void settle(TrainArguments& a) {
  if (a.resume) settle_resume(a);
  if (a.out.empty()) throw InputError("--output", "is missing", "Name the run folder.");
  a.checkpoint_interval = parse_checkpoint_interval(a.checkpoint_every);
  if (a.retune) settle_retune(a);
  if (a.steps == 0 && a.epochs == 0) {
    throw InputError("--steps", "is missing", "Give --steps N, or --epochs N.");
  }
  check_range("--weight-decay", a.weight_decay, 0, 1e3);
  check_range("--beta1", a.beta1, 0, 0.999999);
  check_range("--beta2", a.beta2, 0, 0.999999);
  // With 0, a parameter that no gradient reaches, such as a token's that does not occur, is 0 / 0.
  check_range("--epsilon", a.epsilon, 1e-30, 1);
  check_range("--deadline", a.deadline, 0, 1e6);
}

void settle_steps(TrainArguments& a, std::int64_t samples, std::int64_t global_batch) {
  if (a.epochs > 0) {
    const double steps =
        std::ceil(a.epochs * static_cast<double>(samples) / static_cast<double>(global_batch));
    if (steps > static_cast<double>(kMostSteps)) {
      throw InputError("--epochs", fmt::format("{} are {:.3g} steps", a.epochs, steps),
                       fmt::format("Use at most {} steps.", kMostSteps));
    }
    a.steps = static_cast<std::int64_t>(steps);
  }
  schedule_of(a).validate();
  constexpr std::int64_t kEvaluations = 10;
  if (a.eval_every == 0) a.eval_every = std::max<std::int64_t>(1, a.steps / kEvaluations);
}

LearningRateSchedule schedule_of(const TrainArguments& a) {
  return {.peak = a.learning_rate,
          .minimum = a.minimum_learning_rate,
          .warmup_steps = a.warmup_steps,
          .total_steps = a.steps,
          .decay = parse_decay(a.schedule)};
}

std::string run_json(const TrainArguments& a, int argc, const char* const* argv) {
  const nlohmann::ordered_json json{
      {"argv", std::vector<std::string>(argv, argv + argc)},
      {"started", utc_now()},
      {"host", host_name()},
      {"versions", {{"athanor", version_text()}, {"compiler", __VERSION__}}},
      {"config",
       {{"plan", a.plan},
        {"model", a.model},
        {"data", a.data},
        {"tokens_dtype", a.tokens_dtype},
        {"backend", a.backend},
        {"steps", a.steps},
        {"epochs", a.epochs},
        {"eval_data", a.eval_data},
        {"eval_every", a.eval_every},
        {"lr", a.learning_rate},
        {"min_lr", a.minimum_learning_rate},
        {"warmup_steps", a.warmup_steps},
        {"schedule", a.schedule},
        {"weight_decay", a.weight_decay},
        {"beta1", a.beta1},
        {"beta2", a.beta2},
        {"epsilon", a.epsilon},
        {"seed", a.seed},
        {"shuffle", a.shuffle},
        {"snapshot", a.snapshot},
        {"deterministic", a.deterministic},
        {"cuda_graphs", a.cuda_graphs},
        {"nvme", a.nvme},
        {"metrics", a.metrics},
        {"repredict", a.repredict},
        {"retune", a.retune ? nlohmann::ordered_json(a.retune_margin) : nlohmann::ordered_json()},
        {"checkpoint_every", a.checkpoint_every},
        {"async_checkpoint", a.async_checkpoint},
        {"keep_last", a.keep_last},
        {"resume_from", a.resume_from},
        {"export", a.export_folder},
        {"device_memory", a.device_memory}}},
  };
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace athanor::cli
