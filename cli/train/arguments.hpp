// SPDX-License-Identifier: Apache-2.0
// Options of `athanor train`.
#pragma once

#include "executor/checkpoint/checkpoint_pace.hpp"
#include "executor/train/lr_schedule.hpp"
#include "sim/base/quantities.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace athanor::cli {

struct TrainArguments {
  std::string plan, model, out;
  std::vector<std::string> data;  ///< files and patterns
  bool fresh = false;             ///< pass over the weights of the model's folder
  std::string profile, platform;  ///< override the plan's own paths
  std::string backend = "auto";
  std::int64_t steps = 0;              ///< 0 until settle_steps() where --epochs is given
  double epochs = 0;                   ///< 0: --steps is given
  std::vector<std::string> eval_data;  ///< files and patterns; empty: no evaluation
  std::int64_t eval_every = 0;         ///< steps; 0 until settle_steps()
  int num_processes = 0;               ///< --gpus; 0 = as launched
  int max_restarts = 0;                ///< --max-restarts
  double learning_rate = 3e-4, minimum_learning_rate = 0;
  std::int64_t warmup_steps = 0;
  std::string schedule = "cosine";
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  std::uint64_t seed = 0;
  bool shuffle = false;  ///< take samples in an order of the seed
  std::string checkpoint_every = "10m";
  CheckpointInterval checkpoint_interval;  ///< --checkpoint-every, parsed
  std::string async_checkpoint = "off";    ///< off, copy or version
  int keep_last = 2;
  bool resume = false;
  std::string resume_from;        ///< run folder or checkpoint; empty: --output
  std::string resume_run;         ///< run folder that --resume means
  std::string resume_checkpoint;  ///< checkpoint that --resume names; empty: the newest
  std::string export_folder;
  std::string tokens_dtype = "auto";
  Bytes device_memory = 0;
  std::string repredict = "beside";  ///< beside, wait or off
  bool retune = false;               ///< change to a better plan on the way
  std::string retune_margin_text;    ///< value of --retune; empty: the default
  double retune_margin = 0.05;       ///< --retune, parsed: share of the step
  std::string snapshot;              ///< value of parse_snapshot_way(); empty: the plan's
  std::string cuda_graphs;           ///< on, off, or empty: the plan's
  std::string deterministic;         ///< on, off, or empty until read_inputs(): the plan's
  std::string metrics = "jsonl";     ///< jsonl, or tensorboard beside it
  std::string nvme;                  ///< folder for optimizer state on NVMe
  double deadline = 0;               ///< 0 = derived from the predicted step
  bool dry_run = false, quiet = false;
  std::set<std::string> given;  ///< long names of the options that were given: "--seed"
};

/// Adds every option to `app`. `arguments` must outlive the parse.
void add_train_options(CLI::App& app, TrainArguments& arguments);

/// Checks what CLI11 does not check, and fills in options that follow from others. Throws
/// InputError.
void settle(TrainArguments& arguments);

/// Fills in what follows from the number of steps in which every sample is trained on once. Throws
/// InputError.
void settle_steps(TrainArguments& arguments, std::int64_t samples, std::int64_t global_batch);

[[nodiscard]] LearningRateSchedule schedule_of(const TrainArguments& arguments);

/// Returns the JSON object of run.json that says how the run was started.
[[nodiscard]] std::string run_json(const TrainArguments& arguments, int argc,
                                   const char* const* argv);

}  // namespace athanor::cli
