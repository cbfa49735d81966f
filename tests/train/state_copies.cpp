// SPDX-License-Identifier: Apache-2.0
#include "tests/train/state_copies.hpp"

#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "executor/snapshot/snapshot_reader.hpp"
#include "executor/train/trainer.hpp"
#include "executor/units/language_model.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/sample_batches.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace athanor::test {
namespace {

constexpr const char* kRun = "0123456789abcdef";

/// One rank's run: a trainer after the other.
class Run {
 public:
  Run(const Profile& profile, Plan plan, std::int64_t steps, Backend& backend)
      : profile_(profile), plan_(std::move(plan)), backend_(backend) {
    options_.seed = 11;
    options_.schedule = {.peak = 3e-3, .minimum = 1e-4, .warmup_steps = 2, .total_steps = steps};
  }

  void keep_memory_in(const std::string& folder) {
    options_.snapshot = SnapshotOptions{.run = kRun, .folder = folder};
    path_ = memory_path(folder, kRun, backend_.collectives().rank());
  }

  void start() {
    make_trainer(false);
    trainer_->start_fresh();
  }
  /// Ends without saving, and goes on from the newest version. Returns its steps.
  std::int64_t begin_again() {
    trainer_.reset();
    const std::int64_t steps = read_snapshot_summary(path_).steps;
    backend_.host_collectives().barrier();  // all have looked
    make_trainer(true);
    trainer_->start_from_memory(steps);
    return steps;
  }
  void end() {
    trainer_->forget_snapshot();
    trainer_.reset();
  }

  void train_until(std::int64_t step) {
    trainer_->train_until(step, [&](const StepReport& report) {
      losses_.resize(static_cast<std::size_t>(report.step));
      losses_.back() = report.loss;
    });
  }
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }

  /// Hash of every part of this rank's state as it is now.
  [[nodiscard]] std::vector<std::uint64_t> state() const {
    std::vector<std::uint64_t> hashes;
    std::vector<float> values;
    for (const StateRange& range : trainer_->ranges_to_save()) {
      values.resize(static_cast<std::size_t>(range.at.elements()));
      for (const StatePart part : kStateParts) {
        range.read(part, values);
        hashes.push_back(hash_bytes(std::as_bytes(std::span(values))));
      }
    }
    return hashes;
  }
  [[nodiscard]] std::vector<std::uint64_t> weights() const {
    std::vector<std::uint64_t> hashes;
    for (int unit = 0; unit < static_cast<int>(plan_.units.size()); ++unit) {
      const std::vector<float> weights = trainer_->unit_weights(unit);
      hashes.push_back(hash_bytes(std::as_bytes(std::span(weights))));
    }
    return hashes;
  }
  [[nodiscard]] bool on_all_ranks(bool holds) const {
    const std::vector<std::uint64_t> all = trainer_->exchange(holds ? 1 : 0);
    return std::ranges::count(all, 1U) == std::ssize(all);
  }

 private:
  void make_trainer(bool resumes) {
    if (options_.snapshot) options_.snapshot->resumes = resumes;
    trainer_ = std::make_unique<Trainer>(
        make_language_model(profile_.architecture, plan_.dtype, plan_.sequence_length), profile_,
        plan_, batch_of, options_, backend_);
  }

  const Profile& profile_;
  Plan plan_;
  Backend& backend_;
  TrainOptions options_;
  std::string path_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<double> losses_;
};

}  // namespace

nlohmann::json run_in_lives(const Profile& profile, const Plan& plan, std::int64_t steps,
                            const std::string& folder, Backend& backend) {
  Plan without = plan;
  without.snapshot = Snapshot::None;
  without.snapshot_every = 1;
  Run plain(profile, without, steps, backend);
  plain.start();
  std::vector<std::vector<std::uint64_t>> states{plain.state()};
  for (std::int64_t step = 1; step <= steps; ++step) {
    plain.train_until(step);
    states.push_back(plain.state());
  }
  nlohmann::json result{
      {"plan", plan.name}, {"every", plan.snapshot_every}, {"plain losses", plain.losses()}};
  result["plain weights"] = plain.weights();
  Run lives(profile, plan, steps, backend);
  lives.keep_memory_in(folder);
  lives.start();
  std::vector<std::int64_t> from{lives.begin_again()};  // nothing was trained yet
  bool is_same = lives.state() == states.front();
  for (std::int64_t step = 2; step <= steps; ++step) {
    lives.train_until(step);
    if (step == steps) break;
    from.push_back(lives.begin_again());
    is_same = is_same && lives.state() == states[static_cast<std::size_t>(from.back())];
  }
  result["from"] = from;
  result["same states"] = lives.on_all_ranks(is_same);
  result["losses"] = lives.losses();
  result["weights"] = lives.weights();
  lives.end();
  return result;
}

}  // namespace athanor::test
