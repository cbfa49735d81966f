// SPDX-License-Identifier: Apache-2.0
// On a GPU, too, a plan never changes the loss: the same bits under every plan.
#include "executor/backend/collectives_local.hpp"
#include "executor/backend/cuda_plugin.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/train/trainer.hpp"
#include "executor/units/language_model.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/sample_batches.hpp"
#include "tests/train/state_copies.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <filesystem>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace athanor;

constexpr std::int64_t kSteps = 20;
constexpr std::int64_t kGlobalBatch = 2;

struct Result {
  std::vector<double> losses, norms, held_out;
  std::vector<std::uint64_t> weights;
  bool operator==(const Result&) const = default;
};

/// Plans with outputs on the host need to know how large those are.
Profile profile_of(const Architecture& architecture, DataType dtype) {
  Profile profile = unmeasured_profile(architecture, dtype, test::kSequence, 1);
  const Bytes output =
      test::kSequence * architecture.language_model.value().hidden_size * size_of(dtype);
  for (UnitCost& cost : profile.costs) {
    cost.output_bytes = cost.unit_class == architecture.units.back().unit_class ? 0 : output;
  }
  return profile;
}

template <typename Where>
Result train(const Plan& plan, DataType dtype, Where& where) {
  const Architecture architecture = test::tiny_gpt2();
  Plan typed = plan;
  typed.dtype = dtype;
  TrainOptions options;
  options.seed = 11;
  options.nvme_folder = std::filesystem::temp_directory_path();
  options.schedule = {.peak = 3e-3, .minimum = 1e-4, .warmup_steps = 5, .total_steps = kSteps};
  Trainer trainer(make_language_model(architecture, dtype, test::kSequence),
                  profile_of(architecture, dtype), typed, test::batch_of, options, where);
  trainer.start_fresh();
  Result result;
  for (const std::int64_t end : {kSteps / 2, kSteps}) {
    trainer.train_until(end, [&](const StepReport& report) {
      result.losses.push_back(report.loss);
      result.norms.push_back(report.gradient_norm.value());
    });
    result.held_out.push_back(trainer.evaluate(test::held_out()).value().loss);
  }
  for (int unit = 0; unit < static_cast<int>(architecture.units.size()); ++unit) {
    const std::vector<float> weights = trainer.unit_weights(unit);
    result.weights.push_back(hash_bytes(std::as_bytes(std::span(weights))));
  }
  return result;
}

/// One per process: LibTorch's settings for CUDA are the process's.
Backend& gpu() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({});
  return *backend;
}

std::vector<Plan> plans(std::int64_t global_batch, AdamState adam_state = AdamState::Float32) {
  std::vector<Plan> all = test::varied_plans(test::tiny_gpt2(), 1, global_batch, adam_state);
  if (adam_state == AdamState::Float32) return all;
  std::erase_if(all, [](const Plan& plan) { return plan.snapshot == Snapshot::Redo; });
  return all;
}

/// In bf16 also with updates ahead of the norm, except where a redo log waits for all gradients.
std::vector<Plan> plans_in(DataType dtype, std::int64_t global_batch,
                           AdamState adam_state = AdamState::Float32) {
  std::vector<Plan> all = plans(global_batch, adam_state);
  if (dtype == DataType::Float32) return all;
  for (Plan& plan : plans(global_batch, adam_state)) {
    if (plan.snapshot == Snapshot::Redo) continue;
    plan.name += ", ahead of the norm";
    plan.clipping = Clipping::Speculate;
    all.push_back(std::move(plan));
  }
  return all;
}

void check_all_plans(DataType dtype, const std::vector<Plan>& all) {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
  const Result first = train(all.front(), dtype, gpu());
  CHECK(first.losses.back() < 0.95 * first.losses.front());
  for (const Plan& plan : all) {
    INFO(plan.name);
    const Result result = train(plan, dtype, gpu());
    CHECK(result.losses == first.losses);
    CHECK(result.norms == first.norms);
    CHECK(result.held_out == first.held_out);
    CHECK(result.weights == first.weights);
  }
}

}  // namespace

TEST_CASE("every plan gives the same bits on a GPU in fp32") {
  check_all_plans(DataType::Float32, plans_in(DataType::Float32, kGlobalBatch));
}

TEST_CASE("every plan gives the same bits on a GPU in bf16") {
  // One micro-batch: squares of gradients on their way to the host are summed on the GPU.
  check_all_plans(DataType::BFloat16,
                  plans_in(DataType::BFloat16, GENERATE(std::int64_t{1}, kGlobalBatch)));
}

TEST_CASE("every plan gives the same bits on a GPU with moments in bf16 and int8") {
  const AdamState adam_state = GENERATE(AdamState::BFloat16, AdamState::Int8);
  check_all_plans(DataType::BFloat16, plans_in(DataType::BFloat16, kGlobalBatch, adam_state));
}

TEST_CASE("plans whose phases are CUDA graphs give the same bits on a GPU") {
  const DataType dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  std::vector<Plan> all = plans_in(dtype, kGlobalBatch);
  Plan launched = all.front();
  launched.name = "launched kernel by kernel";
  for (Plan& plan : all) {
    plan.name += ", as CUDA graphs";
    plan.cuda_graphs = true;
  }
  all.insert(all.begin(), launched);
  check_all_plans(dtype, all);
}

TEST_CASE("copies of state on a GPU are what it had, and runs go on from them to the same bits") {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
  const DataType dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  const Architecture architecture = test::tiny_gpt2();
  const test::TemporaryFolder folder(kSharedMemoryFolder);  // files on a disk cannot be page-locked
  for (const Plan& plan :
       test::copied_plans(architecture, 1, kGlobalBatch, dtype, AdamState::Float32)) {
    const auto result =
        test::run_in_lives(profile_of(architecture, dtype), plan, 6, folder.path().string(), gpu());
    INFO(plan.name);
    CHECK(result["same states"] == true);
    CHECK(result["losses"] == result["plain losses"]);
    CHECK(result["weights"] == result["plain weights"]);
  }
}

TEST_CASE("without determinism a plan's losses on a GPU agree to rounding") {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
  Plan plan = plans(kGlobalBatch).front();
  const Result on = train(plan, DataType::BFloat16, gpu());
  plan.deterministic = false;
  const Result off = train(plan, DataType::BFloat16, gpu());
  CHECK(off.losses.front() == on.losses.front());  // forward has the same kernels
  for (std::size_t step = 0; step < kSteps; ++step) {
    CHECK_THAT(off.losses[step], Catch::Matchers::WithinRel(on.losses[step], 0.02));
  }
}

TEST_CASE("training on a GPU and on the host agrees") {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
  const Plan plan = plans(kGlobalBatch).front();
  const std::unique_ptr<Collectives> alone = make_local_collectives();
  const Result host = train(plan, DataType::Float32, *alone);
  const Result device = train(plan, DataType::Float32, gpu());
  for (std::size_t step = 0; step < kSteps; ++step) {
    CHECK_THAT(device.losses[step], Catch::Matchers::WithinRel(host.losses[step], 1e-4));
    CHECK_THAT(device.norms[step], Catch::Matchers::WithinRel(host.norms[step], 1e-3));
  }
  for (std::size_t i = 0; i < host.held_out.size(); ++i) {
    CHECK_THAT(device.held_out[i], Catch::Matchers::WithinRel(host.held_out[i], 1e-4));
  }
}
