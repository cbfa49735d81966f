// SPDX-License-Identifier: Apache-2.0
// Kills, stops and interrupts random processes of jobs at random moments. Every job ends in time,
// leaves nothing behind, and resumed until it is done, it has the bits of an uninterrupted one.
// ATHANOR_CHAOS: how many blows (default 100). ATHANOR_CHAOS_SEED: repeats a printed seed's
// choices.
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <random>
#include <string>
#include <thread>

namespace {

using namespace athanor::test;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kSteps = 60;
constexpr int kChains = 5;  // jobs that stay stopped for a while leave the cores to others
constexpr double kLimit = 30;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Bytes of all tensors of the last checkpoint, and of the exported weights.
std::string result_of(const std::string& out) {
  const std::string last = fmt::format("{}/checkpoints/step-{:08}/", out, kSteps);
  std::string bytes;
  for (const std::string& file :
       {last + "rank-00000-of-00002.safetensors", last + "rank-00001-of-00002.safetensors",
        out + "/exported/model.safetensors"}) {
    std::ifstream in(file, std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(in), {});
  }
  return bytes;
}

class Chaos {
 public:
  Chaos(unsigned blows, unsigned seed) : left_(static_cast<int>(blows)), seed_(seed) {
    plan_ = fixture_.write_plan("plan", fixture_.offloaded_plan(2, 2));
    const Finished whole = run(command(fixture_.file("whole"), true));
    INFO(whole.output);
    REQUIRE(whole.exit_code == 0);
    whole_seconds_ = whole.seconds;
    whole_ = result_of(fixture_.file("whole"));
    REQUIRE_FALSE(whole_.empty());
  }

  /// Deals blows to one job after the other until none are left.
  void run_chain(unsigned chain) {
    std::mt19937 random(seed_ + chain);
    for (int job = 0; left_ > 0; ++job) {
      run_job(fixture_.file(fmt::format("chain-{}-{}", chain, job)), random);
    }
  }

  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  [[nodiscard]] int num_jobs() const { return num_jobs_; }

 private:
  struct Blow {
    std::string victim;
    int signal = 0;
    [[nodiscard]] std::string text() const { return fmt::format("{} gets {}", victim, signal); }
  };

  [[nodiscard]] std::vector<std::string> command(const std::string& out, bool own_launcher) const {
    // The platform lets a simulator run beside every job.
    auto words = fixture_.on_platform(fixture_.command(plan_, kSteps, out));
    words.insert(words.end(), {"--checkpoint-every", "5"});
    if (fs::exists(out + "/checkpoints")) {
      const bool whole = !fs::is_empty(out + "/checkpoints");
      if (whole) words.emplace_back("--resume");
    }
    words.insert(words.end(), {"--export", out + "/exported"});
    if (!own_launcher) return with_processes(2, std::move(words));
    words.insert(words.end(), {"--gpus", "2"});
    return words;
  }

  /// A run that has no checkpoint yet starts anew.
  static void clear_unless_resumable(const std::string& out) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(out + "/checkpoints", error)) {
      if (entry.path().filename().string().starts_with("step-")) return;
    }
    fs::remove_all(out);
  }

  void run_job(const std::string& out, std::mt19937& random) {
    ++num_jobs_;
    for (int life = 0; life < 1000; ++life) {
      clear_unless_resumable(out);
      if (live(out, random)) {
        if (result_of(out) != whole_) complain(out + ": other bits than without blows");
        fs::remove_all(out);
        return;
      }
    }
    complain(out + ": never done");
  }

  [[nodiscard]] static Blow choose(bool own_launcher, std::mt19937& random) {
    const std::array<std::string, 5> victims{"rank 0", "rank 1", "mpirun", "all", "launcher"};
    constexpr std::array kSignals{SIGKILL, SIGSTOP, SIGTERM};
    return {victims.at(random() % (own_launcher ? 5 : 4)), kSignals.at(random() % 3)};
  }

  [[nodiscard]] static std::vector<pid_t> find(const Blow& blow, const std::string& out,
                                               pid_t launcher) {
    if (blow.victim == "launcher") return {launcher};
    if (blow.victim == "mpirun") return {mpirun_of(out)};
    if (blow.victim == "all") return processes_of(out);
    const std::vector<pid_t> ranks = ranks_of(out, 2);
    if (ranks.empty()) return {};
    return {ranks[blow.victim == "rank 0" ? 0 : 1]};
  }

  static bool strike(const Blow& blow, const std::vector<pid_t>& victims) {
    bool hit = false;
    for (const pid_t victim : victims) hit |= victim > 0 && ::kill(victim, blow.signal) == 0;
    return hit;
  }

  /// Continues a job that was stopped as a whole. Nobody was left to notice; it goes on, or ends.
  static bool resume_whole(const Blow& blow, const std::vector<pid_t>& victims,
                           const std::string& out) {
    if (blow.signal != SIGSTOP || victims.size() < processes_of(out).size()) return false;
    sleep_for(1);
    for (const pid_t victim : victims) ::kill(victim, SIGCONT);
    return true;
  }

  /// Runs the job until it ends, and returns whether it is done.
  bool live(const std::string& out, std::mt19937& random) {
    const bool own_launcher = random() % 3 != 0;
    const Blow blow = choose(own_launcher, random);
    const double moment = std::uniform_real_distribution<>(0, 1.3 * whole_seconds_)(random);
    RunningProgram program(command(out, own_launcher));
    bool hit = false, may_go_on = true;
    auto struck_at = Clock::now();
    std::optional<MpiFiles> files;
    if (left_ > 0) {
      sleep_for(moment);
      files.emplace(out, program.process());
      const std::vector<pid_t> victims = find(blow, out, program.process());
      struck_at = Clock::now();
      hit = strike(blow, victims);
      if (hit) --left_;
      may_go_on = !hit || resume_whole(blow, victims, out);
    }
    const Finished finished = program.wait(may_go_on ? 300 : moment + kLimit + 5);
    const auto left = wait_until_gone(out, 5);
    const std::string story =
        fmt::format("{}: {} after {:.2f} s, {}, {} s later code {}:\n{}", out, blow.text(), moment,
                    own_launcher ? "own launcher" : "mpirun", seconds_since(struck_at),
                    finished.exit_code, finished.output);
    if (!may_go_on && seconds_since(struck_at) > kLimit) complain("too late: " + story);
    if (!left.empty()) complain("processes are left: " + described(left) + story);
    // Before a rank has begun, mpirun's files are mpirun's own affair.
    if (files && (own_launcher || files->has_cleaner())) check_files(*files, story);
    const bool stopped_rank = blow.signal == SIGSTOP && blow.victim.starts_with("rank");
    if (hit && stopped_rank && finished.exit_code != 0 &&
        finished.output.find(blow.victim + " ") == std::string::npos) {
      complain("the rank is not named: " + story);
    }
    if (!hit && finished.exit_code != 0) complain("fails without a blow: " + story);
    return finished.exit_code == 0;
  }

  void check_files(const MpiFiles& files, const std::string& story) {
    for (const std::string& file : files.left_behind()) complain("left: " + file + ", " + story);
  }

  void complain(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    problems_.push_back(problem);
  }

  std::atomic<int> left_;
  std::atomic<int> num_jobs_{0};
  const unsigned seed_;
  const TrainFixture fixture_;
  std::string plan_, whole_;
  double whole_seconds_ = 0;
  std::mutex mutex_;
  std::vector<std::string> problems_;
};

}  // namespace

TEST_CASE("blows at random moments lose nothing, leave nothing and end in time") {
  const unsigned blows = environment_number("ATHANOR_CHAOS", 100);
  const unsigned seed = environment_number("ATHANOR_CHAOS_SEED", std::random_device{}());
  std::cout << "ATHANOR_CHAOS=" << blows << " ATHANOR_CHAOS_SEED=" << seed << std::endl;
  Chaos chaos(blows, seed);
  std::vector<std::thread> chains;
  for (unsigned chain = 0; chain < kChains; ++chain) {
    chains.emplace_back([&chaos, chain] { chaos.run_chain(chain); });
  }
  for (std::thread& chain : chains) chain.join();
  std::cout << chaos.num_jobs() << " jobs" << std::endl;
  for (const std::string& problem : chaos.problems()) FAIL_CHECK(problem);
}
