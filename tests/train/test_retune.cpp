// SPDX-License-Identifier: Apache-2.0
// A run that tunes again from its own rates: the plan changes, and nothing else.
#include "executor/checkpoint/checkpoint_finder.hpp"
#include "executor/checkpoint/checkpoint_reader.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/model/language_models.hpp"
#include "tests/support/synthetic.hpp"
#include "tests/train/job_processes.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace athanor::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

constexpr const char* kSimulator = ATHANOR_BIN_DIR "/athanor-sim";

/// A model most of whose parameters cost no products: a step is mostly updates.
athanor::Architecture mostly_positions() {
  athanor::LanguageModelConfig config = *tiny_gpt2().language_model;
  config.max_positions = 100000;
  return athanor::make_architecture("mostly-positions", config);
}

void speed_up(athanor::Curve& curve, double factor) {
  for (athanor::Curve::Point& point : curve.points) point.seconds /= factor;
}

/// Returns a machine whose updates on the host look `faster` times as fast as they might be. Copies
/// and collectives are fast, and so are updates on the device, so that little else counts where
/// updates wait for the norm.
athanor::Platform misleading(athanor::Platform platform, double faster) {
  constexpr double kFast = 10;
  for (auto& [threads, curve] : platform.cpu_adam) speed_up(curve, faster);
  for (athanor::Curve athanor::Platform::* curve :
       {&athanor::Platform::h2d, &athanor::Platform::d2h, &athanor::Platform::device_adam}) {
    speed_up(platform.*curve, kFast);
  }
  for (const athanor::RingCollective& ring :
       {athanor::kAllGather, athanor::kReduceScatter, athanor::kAllReduce}) {
    for (athanor::CollectiveCurve& collective : platform.*ring.curves) {
      speed_up(collective.curve, kFast);
    }
  }
  return platform;
}

/// Files of a run under the plan that is the best one on such a machine.
class Misled : public TrainFixture {
 public:
  explicit Misled(double faster) : TrainFixture(athanor::DataType::Float32, mostly_positions()) {
    static_cast<void>(on_platform(command("none", 1, "none")));  // writes both files
    athanor::write_file_atomically(file("platform.json"),
                                   to_json(misleading(synthetic_platform(2), faster)));
    static_cast<void>(
        output_of({kSimulator, "tune", "--profile", file("timed-profile.json"), "--platform",
                   file("platform.json"), "--gpus", "2", "--global-batch", "4", "--micro-batch",
                   "1", "--clip", "1", "--output", file("plan.json")}));
  }

  /// Command of a job of two ranks under the plan, with its own profile and platform.
  [[nodiscard]] std::vector<std::string> job(int steps, const std::string& out,
                                             const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = replaced(command(file("plan.json"), steps, file(out)),
                                              "--profile", file("timed-profile.json"));
    words.insert(words.end(), {"--gpus", "2"});
    return with_words(words, more);
  }
};

nlohmann::json record_of(const std::string& run) {
  return nlohmann::json::parse(athanor::read_text_file(run + "/run.json"));
}

/// Returns the starts of a run that came about by changes of its plan, in order.
std::vector<nlohmann::json> changed_starts(const std::string& run) {
  const nlohmann::json record = record_of(run);
  std::vector<nlohmann::json> starts;
  for (const nlohmann::json& start : record.at("history")) {
    if (start.contains("changed_plan")) starts.push_back(start);
  }
  if (record.contains("changed_plan")) starts.push_back(record);
  return starts;
}

/// Reads all of a run's newest checkpoint.
std::vector<float> state_of(const std::string& run, const athanor::Architecture& architecture) {
  using namespace athanor;
  const auto chosen = choose_newest_checkpoint(run + "/checkpoints", "");
  const Checkpoint checkpoint = open_checkpoint(chosen, architecture, 0, 1);
  const std::vector<std::int64_t> elements = logical_elements(architecture);
  std::vector<float> all;
  for (std::size_t unit = 0; unit < elements.size(); ++unit) {
    for (const StatePart part : kStateParts) {
      std::vector<float> values(static_cast<std::size_t>(elements[unit]));
      checkpoint.reader(static_cast<std::int32_t>(unit), part, 0, values);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const std::vector<std::string> kWaits{"--retune", "--repredict", "wait"};

}  // namespace

TEST_CASE("a run that was planned with a false rate changes its plan, and no bit of its losses") {
  const Misled fixture(1000);
  const std::vector<std::string> evaluates{"--eval-data",        fixture.file("tokens.bin"),
                                           "--eval-every",       "7",
                                           "--warmup-steps",     "4",
                                           "--checkpoint-every", "40"};
  const std::string plain = fixture.file("plain"), tuned = fixture.file("tuned");
  static_cast<void>(output_of(fixture.job(150, "plain", evaluates)));
  const std::string output = output_of(with_words(fixture.job(150, "tuned", evaluates), kWaits));
  INFO(output);
  CHECK_THAT(output, ContainsSubstring("the plan is changed after step 3: ") &&
                         ContainsSubstring("times as long as predicted"));
  CHECK(loss_curve(tuned).losses.size() == 150);
  CHECK(loss_curve(tuned) == loss_curve(plain));
  CHECK(
      same_bits(state_of(tuned, fixture.architecture()), state_of(plain, fixture.architecture())));

  const std::vector<nlohmann::json> starts = changed_starts(tuned);
  REQUIRE_FALSE(starts.empty());
  CHECK(starts.front().at("changed_plan").at("after_step") == 3);
  for (const nlohmann::json& start : starts) {
    const nlohmann::json& change = start.at("changed_plan");
    CHECK_FALSE(change.at("changes").empty());
    CHECK_FALSE(change.at("moved_rates").empty());
    CHECK(change.at("best_step_seconds").get<double>() <
          0.95 * change.at("current_step_seconds").get<double>());
    CHECK(start.at("predicted_step_seconds") == change.at("best_step_seconds"));
  }
  CHECK(fs::exists(tuned + "/retunes/0001/plan.json"));
  CHECK_FALSE(fs::exists(tuned + "/retunes/candidate"));
  CHECK(athanor::read_text_file(tuned + "/plan.json") !=
        athanor::read_text_file(plain + "/plan.json"));
  CHECK(wait_until_gone(tuned, 5).empty());
}

namespace {

/// A run on a described machine whose simulator is a shell script. It is called with `repredict
/// RUN ..`, and with `retune RUN --output FOLDER ..`.
class Scripted : public TrainFixture {
 public:
  /// `retune`: lines of the script for the search.
  explicit Scripted(const std::string& retune) {
    athanor::Plan plan = offloaded_plan(2, 4);
    plan.prediction.emplace();
    plan.prediction->step_seconds = 0.2;
    static_cast<void>(write_plan("plan", plan));
    athanor::Plan better = replicated_plan(2, 4);
    better.prediction.emplace();
    better.prediction->step_seconds = 0.1;
    static_cast<void>(write_plan("better", better));
    static_cast<void>(on_platform(command("none", 1, "none")));
    fs::create_directory(file("programs"));
    fs::copy_file(ATHANOR_BIN_DIR "/athanor-train", file("programs/athanor-train"));
    if (retune.empty()) return;
    const std::string script = file("programs/athanor-sim");
    athanor::write_file_atomically(
        script,
        "#!/bin/sh\nset -e\n[ $1 = retune ] || { echo '{\"repredicted_step_seconds\": 50}'; "
        "exit; }\n" +
            retune + "\n");
    fs::permissions(script, fs::perms::owner_all);
  }

  /// Lines that answer with a plan.
  [[nodiscard]] std::string finds(const std::string& plan) const {
    return "mkdir -p $4 && cp " + file(plan) + " $4/plan.json && cp " + file("timed-profile.json") +
           " $4/profile.json && cp " + file("platform.json") + " $4/platform.json\n" +
           answer(/*is_better=*/true);
  }
  [[nodiscard]] static std::string answer(bool is_better) {
    return std::string(
               "echo '{\"current_step_seconds\": 20, \"best_step_seconds\": 10, "
               "\"is_better\": ") +
           (is_better ? "true" : "false") +
           ", \"changes\": [\"sharding: sharded -> replicated\"], \"moved_rates\": [\"adam on "
           "cpu-adam takes 3 times as long as predicted\"], \"first_step\": 2, \"last_step\": 3}'";
  }

  [[nodiscard]] std::vector<std::string> job(int steps, const std::string& out,
                                             const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = on_platform(command(file("plan.json"), steps, file(out)));
    words.front() = file("programs/athanor-train");
    words.insert(words.end(), {"--gpus", "2", "--checkpoint-every", "10"});
    return with_words(words, more);
  }
};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<nlohmann::json> retunes_of(const std::string& run) {
  const nlohmann::json record = record_of(run);
  return record.value("retunes", std::vector<nlohmann::json>{});
}

}  // namespace

TEST_CASE("a plan from which too little is to be gained stays") {
  const Misled fixture(1000);
  const std::string run = fixture.file("run");
  const std::string output =
      output_of(fixture.job(12, "run", {"--retune", "80%", "--repredict", "wait"}));
  CHECK_THAT(output, ContainsSubstring("tuned again, and the plan stays: the best plan is "));
  CHECK(changed_starts(run).empty());
  const std::vector<nlohmann::json> retunes = retunes_of(run);
  REQUIRE_FALSE(retunes.empty());
  CHECK(retunes.front().at("outcome") == "kept");
  CHECK(retunes.front().at("current_step_seconds").get<double>() > 0);
  CHECK_FALSE(fs::exists(run + "/retunes/0001"));
}

TEST_CASE("a search that fails is said, and training goes on") {
  struct Case {
    std::string search, says;
  };
  for (const auto& [search, says] :
       {Case{"", "athanor-sim is not installed"}, Case{"echo it broke >&2; exit 3", "it broke"},
        Case{"kill -9 $$", "signal 9"}, Case{"echo '{}'", "printed no answer"},
        Case{"exec sleep 1000", "the run ended before a plan was found"}}) {
    INFO(search);
    const Scripted fixture(search);
    const bool ends = search.find("sleep") == std::string::npos;
    const std::string output =
        output_of(fixture.job(8, "run", {"--retune", "--repredict", ends ? "wait" : "beside"}));
    CHECK_THAT(output,
               ContainsSubstring("the plan is not tuned again: ") && ContainsSubstring(says));
    CHECK(loss_curve(fixture.file("run")).losses.size() == 8);
    const std::vector<nlohmann::json> retunes = retunes_of(fixture.file("run"));
    REQUIRE_FALSE(retunes.empty());
    CHECK(retunes.front().at("outcome") == "failed");
    CHECK_THAT(retunes.front().at("why").get<std::string>(), ContainsSubstring(says));
    CHECK(wait_until_gone(fixture.file("run"), 5).empty());
  }
}

TEST_CASE("a plan that cannot run is not taken") {
  const Scripted source("");
  static_cast<void>(source.write_plan("better", source.nvme_plan(2, 4)));  // and no --nvme
  const Scripted fixture(source.finds("better.json"));
  const std::string output = output_of(fixture.job(8, "run", kWaits));
  CHECK_THAT(output, ContainsSubstring("a better plan cannot run: "));
  CHECK(changed_starts(fixture.file("run")).empty());
  CHECK(loss_curve(fixture.file("run")).losses.size() == 8);
}

TEST_CASE("a change in the middle of a run that also evaluates, shuffles and exports") {
  const Scripted source("");
  const Scripted fixture("echo >> $0.calls; [ $(wc -l < $0.calls) -le 1 ] || { " +
                         Scripted::answer(/*is_better=*/false) + "; exit; }\n" +
                         source.finds("better.json"));
  const std::vector<std::string> more{"--eval-data",
                                      fixture.file("tokens.bin"),
                                      "--eval-every",
                                      "3",
                                      "--shuffle",
                                      "--seed",
                                      "5",
                                      "--warmup-steps",
                                      "6",
                                      "--export"};
  const std::string plain = fixture.file("plain"), tuned = fixture.file("tuned");
  static_cast<void>(output_of(fixture.job(40, "plain", with_words(more, {plain + "-exported"}))));
  // Beside the run the change comes after some step.
  const std::string output = output_of(
      fixture.job(40, "tuned", with_words(with_words(more, {tuned + "-exported"}), {"--retune"})));
  INFO(output);
  REQUIRE(changed_starts(tuned).size() == 1);
  CHECK(loss_curve(tuned) == loss_curve(plain));
  CHECK(
      same_bits(state_of(tuned, fixture.architecture()), state_of(plain, fixture.architecture())));
  CHECK(bytes_of(tuned + "-exported/model.safetensors") ==
        bytes_of(plain + "-exported/model.safetensors"));
  std::ifstream metrics(tuned + "/metrics.jsonl");
  const auto after = changed_starts(tuned).front().at("changed_plan").at("after_step");
  int evaluated = 0;
  for (std::string text; std::getline(metrics, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    evaluated += line.contains("validation_metrics/global_avg_loss") ? 1 : 0;
    const bool is_first_after = line.at("step") == after.get<int>() + 1;
    CHECK(line.contains("retune_metrics/change(s)") == is_first_after);
    CHECK(line.at("predicted_step_seconds") == (line.at("step") > after ? 0.1 : 0.2));
  }
  CHECK(evaluated == 14);
}

TEST_CASE(
    "a run measures again where its steps depart from what was predicted, and not too often") {
  // The first search finds nothing, the second a plan.
  const Scripted source("");
  const Scripted fixture("echo >> $0.calls; [ $(wc -l < $0.calls) -gt 1 ] || { " +
                         Scripted::answer(/*is_better=*/false) + "; exit; }\n" +
                         source.finds("better.json"));
  const std::string output = output_of(fixture.job(400, "run", kWaits));
  INFO(output);
  const std::vector<nlohmann::json> starts = changed_starts(fixture.file("run"));
  REQUIRE_FALSE(starts.empty());
  CHECK(starts.front().at("changed_plan").at("after_step").get<int>() >= 3 + 16);
  // Between searches are 16, 32, 64, 128, .. steps.
  const std::string calls = athanor::read_text_file(fixture.file("programs/athanor-sim.calls"));
  CHECK(calls.size() <= 6);
  CHECK(loss_curve(fixture.file("run")).losses.size() == 400);
}

TEST_CASE("a run whose new plan fails at once goes on under the old one, and tries it no more") {
  // Not enough for what the plan needs besides what is known beforehand.
  const Scripted source("");
  const Scripted fixture(source.finds("better.json"));
  const std::vector<std::string> limit{"--gpu-memory", "530KiB"};
  const std::string run = fixture.file("run"), plain = fixture.file("plain");
  static_cast<void>(output_of(fixture.job(20, "plain", limit)));
  const Finished failed = athanor::test::run(with_words(fixture.job(20, "run", kWaits), limit));
  INFO(failed.output);
  REQUIRE(failed.exit_code == 1);
  REQUIRE(changed_starts(run).size() == 1);
  CHECK_THAT(failed.output, ContainsSubstring("out of device memory"));
  const std::string output =
      output_of(with_words(with_words(fixture.job(20, "run", kWaits), limit), {"--resume"}));
  CHECK_THAT(output, ContainsSubstring("a start under the better plan has failed before"));
  CHECK(loss_curve(run) == loss_curve(plain));
}

TEST_CASE("a run that has changed its plan goes on under that, unless --plan is another one") {
  const Scripted source("");
  const Scripted fixture(source.finds("better.json"));
  const std::string run = fixture.file("run");
  static_cast<void>(output_of(fixture.job(20, "run", kWaits)));
  REQUIRE(changed_starts(run).size() == 1);
  const std::string better = athanor::read_text_file(run + "/plan.json");
  const std::vector<std::string> again{"--retune", "--resume", run, "--schedule", "constant"};

  // Too few steps for another search.
  const std::string output = output_of(fixture.job(27, "run", again));
  CHECK_THAT(output, ContainsSubstring("going on under the plan that this run has changed to"));
  CHECK(athanor::read_text_file(run + "/plan.json") == better);
  CHECK(record_of(run).at("changed_plan").at("after_step") == 3);

  static_cast<void>(fixture.write_plan("other", fixture.nvme_plan(2, 4)));
  const std::vector<std::string> other =
      with_words(replaced(fixture.job(30, "run", again), "--plan", fixture.file("other.json")),
                 {"--nvme", fixture.file(".")});
  CHECK_THAT(output_of(other), !ContainsSubstring("going on under the plan"));
  CHECK_FALSE(record_of(run).contains("changed_plan"));
}

TEST_CASE("a retune that could do nothing is refused") {
  const Scripted fixture("exit 0");
  const auto refused = [&](const std::vector<std::string>& more) {
    const Finished finished = run(fixture.job(8, "run", more));
    CHECK(finished.exit_code == 2);
    CHECK_THAT(finished.output, ContainsSubstring("--retune"));
  };
  refused({"--retune", "--repredict", "off"});
  refused({"--retune", "five"});
  const Finished finished =
      run(replaced(fixture.job(8, "run", {"--retune"}), "--checkpoint-every", "0"));
  CHECK(finished.exit_code == 2);
}

namespace {

bool has_checkpoint(const std::string& run) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", error)) {
    if (entry.path().filename().string().starts_with("step-")) return true;
  }
  return false;
}

/// Waits until the job has found a plan, or has changed to one, and a little longer; or for some
/// time.
void wait_for_change(const std::string& run, std::mt19937& random) {
  constexpr int kMost = 2000;
  const std::string sign =
      run + (random() % 2 == 0 ? "/retunes/candidate/plan.json" : "/retunes/0001");
  for (int i = 0; i < kMost && !fs::exists(sign); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(
      std::chrono::duration<double>(std::uniform_real_distribution<>(0, 0.1)(random)));
}

}  // namespace

TEST_CASE("killed at any moment of a change and resumed, a run is the same to the bit") {
  constexpr int kKills = 10, kSteps = 60;
  const std::string snapshots = GENERATE(as<std::string>{}, "none", "redo", "versions");
  const Scripted source("");
  if (snapshots != "none") {
    athanor::Plan better = source.offloaded_plan(2, 4);  // all state stays on the host
    better.cache_slots = 4;
    static_cast<void>(source.write_plan("better", better));
  }
  const Scripted fixture(source.finds("better.json"));
  const auto job = [&](const std::string& out, const std::vector<std::string>& more) {
    return with_words(fixture.job(kSteps, out, more), {"--snapshot", snapshots});
  };
  const std::string plain = fixture.file("plain");
  static_cast<void>(output_of(job("plain", {})));

  std::mt19937 random(3);
  int kills = 0, changed = 0;
  // Runs that are not killed any more change their plan for sure.
  for (int attempt = 0; kills < kKills || changed == 0; ++attempt) {
    const std::string name = "broken-" + std::to_string(attempt), broken = fixture.file(name);
    for (bool done = false; !done;) {
      const bool resumes = has_checkpoint(broken);
      if (!resumes) {
        static_cast<void>(run({ATHANOR_BIN_DIR "/athanor-train", "clean", broken}));
        fs::remove_all(broken);
      }
      RunningProgram program(job(name, resumes ? std::vector<std::string>{"--retune", "--resume"}
                                               : std::vector<std::string>{"--retune"}));
      if (kills < kKills) {
        wait_for_change(broken, random);
        const std::vector<pid_t> ranks = ranks_of(broken, 2);
        if (ranks.size() == 2 && random() % 2 == 0) {
          ::kill(ranks[random() % 2], SIGKILL);
        } else {
          program.signal_all(SIGKILL);
        }
      }
      const Finished finished = program.wait(120);
      INFO(finished.output);
      done = finished.exit_code == 0;
      kills += done ? 0 : 1;
      REQUIRE(attempt < 3 * kKills);
    }
    changed += fs::exists(broken + "/retunes/0001") ? 1 : 0;
    CHECK(loss_curve(broken) == loss_curve(plain));
    CHECK(same_bits(state_of(broken, fixture.architecture()),
                    state_of(plain, fixture.architecture())));
  }
  CHECK(changed > 0);
}
