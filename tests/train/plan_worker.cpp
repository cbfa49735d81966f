// SPDX-License-Identifier: Apache-2.0
// One rank of a job that trains a tiny model under every varied plan, one after the other.
// usage: plan_worker OUT.json GLOBAL_BATCH STEPS gpt2|mixture|"split gpt2"|"split
// mixture"|travelling|tensors|mix|"bf16 moments"|"int8 moments"
// "travelling" is a mixture with split blocks, whose weights travel in the first plan and whose
// tokens travel in the others. "tensors" is llama, whose tensors are split in the others. "mix"
// is a mixture whose tokens travel to its experts in the others, while the tensors of its attention
// and of its dense block are split. "bf16 moments" is gpt2 in bf16, with moments in bf16, and "int8
// moments" likewise. "copies of state", after "bf16 " or not, or before one of the last two, is
// gpt2 under plans with copies of state on the GPU, whose runs end every two steps.
#include "calibrate/profile/profile_model.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/backend/host_backend.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/ranks/connect.hpp"
#include "executor/rendezvous/launcher.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/train/trainer.hpp"
#include "executor/units/language_model.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/model/memory.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/sample_batches.hpp"
#include "tests/train/state_copies.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace athanor;

nlohmann::json run_plan(const Profile& profile, const Plan& plan, std::int64_t steps,
                        const std::string& nvme_folder, Collectives& collectives) {
  Model model = make_language_model(profile.architecture, plan.dtype, plan.sequence_length);
  TrainOptions options;
  options.seed = 11;
  options.nvme_folder = nvme_folder;
  options.schedule = {.peak = 3e-3, .minimum = 1e-4, .warmup_steps = 5, .total_steps = steps};
  Trainer trainer(std::move(model), profile, plan, test::batch_of, options, collectives);
  trainer.start_fresh();
  nlohmann::json result{{"plan", plan.name}};
  for (const std::int64_t end : {steps / 2, steps}) {
    trainer.train_until(end, [&](const StepReport& report) {
      result["losses"].push_back(report.loss);
      result["norms"].push_back(report.gradient_norm.value());
    });
    result["held out"].push_back(trainer.evaluate(test::held_out()).value().loss);
  }
  for (int unit = 0; unit < static_cast<int>(profile.architecture.units.size()); ++unit) {
    const std::vector<float> weights = trainer.unit_weights(unit);
    const Unit& description = profile.architecture.units[static_cast<std::size_t>(unit)];
    std::int64_t end = 0;
    const std::vector<std::int64_t> offsets = parameter_offsets(description, end);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const Parameter& parameter = description.parameters[i];
      const auto values = std::span(weights).subspan(
          static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(parameter.num_elements()));
      result["weights"][parameter.name] = hash_bytes(std::as_bytes(values));
    }
  }
  result["accounted"] = peak_bytes(trainer.program()).gpu;
  result["measured"] = trainer.exchange(static_cast<std::uint64_t>(trainer.peak_bytes().gpu));
  return result;
}

/// Returns those of the plans that narrow moments go with, in bf16, and each of them with updates
/// that do not wait for the norm.
std::vector<Plan> with_narrow_moments(std::vector<Plan> plans) {
  std::erase_if(plans, [](const Plan& plan) { return plan.snapshot == Snapshot::Redo; });
  std::vector<Plan> all;
  for (Plan& plan : plans) {
    plan.dtype = DataType::BFloat16;
    all.push_back(plan);
    plan.name += ", ahead of the norm";
    plan.clipping = Clipping::Speculate;
    all.push_back(std::move(plan));
  }
  return all;
}

int run(int argc, char** argv, std::unique_ptr<Collectives>& collectives) {
  if (argc != 5) throw InputError("", "bad usage", "plan_worker OUT.json GLOBAL_BATCH STEPS MODEL");
  collectives = connect(rank_from_environment());
  const std::string model = argv[4];
  const bool mixes = model == "mix";
  const bool travels = mixes || model == "travelling";
  const bool splits = mixes || model == "tensors";
  const Architecture whole = mixes    ? test::divisible_mixture()
                             : splits ? test::tiny_llama()
                             : travels || model.ends_with("mixture")
                                 ? test::tiny_mixture(travels ? 8 : 6)
                                 : test::tiny_gpt2();
  const Architecture architecture = with_blocks(
      whole, travels || splits || model.starts_with("split ") ? Blocks::Split : Blocks::Whole);
  const bool copies = model.find("copies of state") != std::string::npos;
  const AdamState adam_state = model.ends_with("bf16 moments")   ? AdamState::BFloat16
                               : model.ends_with("int8 moments") ? AdamState::Int8
                                                                 : AdamState::Float32;
  const bool narrow = adam_state != AdamState::Float32;
  const DataType dtype =
      narrow || model.starts_with("bf16") ? DataType::BFloat16 : DataType::Float32;
  const int world_size = collectives->world_size();
  ProfileOptions profiling;
  if (travels) profiling.expert_ranks = {world_size};
  if (splits) profiling.tensor_ranks = {world_size};
  profiling.expert_capacity = 1e6;  // as many rows as any routing can send
  profiling.sequence_length = test::kSequence;
  profiling.micro_batches = {1};
  profiling.rule.max_repetitions = 1;
  const Profile profile =
      profile_model(make_language_model(architecture, dtype, test::kSequence), profiling);
  nlohmann::json results = nlohmann::json::array();
  const std::string nvme_folder = std::filesystem::path(argv[1]).parent_path();
  const std::int64_t global_batch = std::stoll(argv[2]);
  if (copies) {
    HostBackend backend(*collectives, 0);
    for (const Plan& plan :
         test::copied_plans(architecture, world_size, global_batch, dtype, adam_state)) {
      results.push_back(
          test::run_in_lives(profile, plan, std::stoll(argv[3]), nvme_folder, backend));
    }
  }
  std::vector<Plan> plans =
      copies              ? std::vector<Plan>()
      : travels || splits ? test::travelling_plans(profile, world_size, global_batch)
                          : test::varied_plans(architecture, world_size, global_batch, adam_state);
  if (narrow) plans = with_narrow_moments(std::move(plans));
  for (const Plan& plan : plans) {
    results.push_back(run_plan(profile, plan, std::stoll(argv[3]), nvme_folder, *collectives));
  }
  if (collectives->rank() == 0) write_file_atomically(argv[1], results.dump(1));
  return kExitDone;
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<Collectives> collectives;
  const int code = athanor::run_main("plan_worker", [&] { return run(argc, argv, collectives); });
  if (code != athanor::kExitDone && collectives) athanor::abort_job(code);
  return code;
}
