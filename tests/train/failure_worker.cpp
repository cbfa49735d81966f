// SPDX-License-Identifier: Apache-2.0
// One rank of a job of two whose rank 1 fails or hangs at its sixth batch.
// usage: failure_worker throw|hang
#include "executor/backend/collectives_mpi.hpp"
#include "executor/ranks/connect.hpp"
#include "executor/rendezvous/launcher.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/train/trainer.hpp"
#include "executor/units/language_model.hpp"
#include "executor/watch/job_watch.hpp"
#include "sim/base/errors.hpp"
#include "tests/train/run_plans.hpp"

#include <c10/util/Exception.h>

#include <chrono>
#include <string>
#include <thread>

namespace {

using namespace athanor;

Batch batch_of(const std::string& mode, int rank, std::int64_t first, std::int64_t count) {
  constexpr std::int64_t kFailingSample = 10;
  if (rank == 1 && first >= kFailingSample) {
    if (mode == "throw") TORCH_CHECK(false, "no more data");
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  const torch::Tensor ids =
      torch::full({count, test::kSequence}, first % test::kVocabulary, torch::kInt64);
  return {ids, ids.clone()};
}

int run(int argc, char** argv, std::unique_ptr<Collectives>& collectives) {
  if (argc != 2) throw InputError("", "bad usage", "failure_worker throw|hang");
  const std::string mode = argv[1];
  JobWatch watch(rank_from_environment(), "failure_worker");
  collectives = connect(rank_from_environment());
  const int rank = collectives->rank();
  const Architecture architecture = test::tiny_gpt2();
  const Plan plan = test::uniform_plan(architecture, 2, 1, Sharding::Sharded, Home::Gpu, Home::Gpu,
                                       Activation::Keep, 4000);
  TrainOptions options;
  options.watch = &watch;
  options.deadline = 3;
  Trainer trainer(
      make_language_model(architecture, plan.dtype, plan.sequence_length),
      unmeasured_profile(architecture, plan.dtype, plan.sequence_length, 1), plan,
      [&](std::int64_t first, std::int64_t count) { return batch_of(mode, rank, first, count); },
      options, *collectives);
  trainer.start_fresh();
  trainer.train_until(100, [](const StepReport&) {});
  return kExitDone;
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<Collectives> collectives;
  const int code =
      athanor::run_main("failure_worker", [&] { return run(argc, argv, collectives); });
  if (code != athanor::kExitDone && collectives) athanor::abort_job(code);
  return code;
}
