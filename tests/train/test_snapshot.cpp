// SPDX-License-Identifier: Apache-2.0
// Runs that are killed at random moments go on from the memory that they leave, lose no finished
// step, and end with the bits of a run that nobody disturbed.
// ATHANOR_SNAPSHOT_KILLS: how many kills (default 20). ATHANOR_SNAPSHOT_SEED repeats a printed
// seed's choices.
#include "executor/job/run_folder.hpp"
#include "executor/job/run_record.hpp"
#include "executor/memory/shared_memory.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "sim/model/chunk_layout.hpp"
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;
namespace fs = std::filesystem;

constexpr int kSteps = 400;
constexpr int kChains = 5;        // a killed job mostly waits
constexpr int kStepsBefore = 20;  ///< a kill

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string identity_of(const std::string& out) { return run_identity_in(read_run_record({out})); }

std::vector<RankMemory> memory_of(const std::string& out) {
  const std::string run = identity_of(out);
  return run.empty() ? std::vector<RankMemory>() : list_rank_memory(kSharedMemoryFolder, run);
}

/// All state on the host; with copies, every other chunk's on the device, and with copies in some
/// steps all of it.
Plan plan_with(Snapshot snapshot, const TrainFixture& fixture, int world_size, int every = 1) {
  Plan plan = fixture.offloaded_plan(world_size, 2);
  plan.snapshot = snapshot;
  plan.snapshot_every = every;
  if (snapshot != Snapshot::Copy) return plan;
  for (UnitPlan& unit : plan.units) {
    std::int64_t chunks = 0;
    for (const ChunkRun& run : unit.chunks) chunks += run.count;
    unit.chunks.clear();
    for (std::int64_t i = 0; i < chunks; ++i) {
      const bool on_device = i % 2 == 0 || every > 1;
      unit.chunks.push_back(on_device ? ChunkRun{1, Home::Gpu, Home::Gpu}
                                      : ChunkRun{1, Home::Host, Home::Host});
    }
  }
  return plan;
}

Plan redo_plan(const TrainFixture& fixture, int world_size) {
  return plan_with(Snapshot::Redo, fixture, world_size);
}

/// Number after `mark` in a text; -1: it is not there.
std::int64_t number_after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + mark.size()));
}

/// A job of one rank that is killed once it has done some steps.
class KilledRun {
 public:
  explicit KilledRun(
      const std::string& checkpoint_every = "7",
      const std::function<void(const std::string& out)>& while_stopped = [](const auto&) {})
      : plan_(fixture_.write_plan("plan", redo_plan(fixture_, 1))), out_(fixture_.file("run")) {
    RunningProgram program(with_words(command(), {"--checkpoint-every", checkpoint_every}));
    for (int i = 0; i < 3000 && num_steps(out_) < kStepsBefore; ++i) {
      sleep_for(0.01);
    }
    ::kill(program.process(), SIGSTOP);
    while_stopped(out_);
    ::kill(program.process(), SIGKILL);
    const Finished killed = program.wait(60);
    INFO(killed.output);
    REQUIRE(killed.exit_code == 128 + SIGKILL);
  }
  ~KilledRun() {
    std::vector<RankMemory> held;
    static_cast<void>(remove_run_memory(kSharedMemoryFolder, identity_of(out_), held));
  }
  KilledRun(const KilledRun&) = delete;
  KilledRun& operator=(const KilledRun&) = delete;

  [[nodiscard]] std::vector<std::string> command() const {
    return fixture_.command(plan_, kSteps, out_);
  }
  [[nodiscard]] Finished resume(const std::vector<std::string>& words = {}) const {
    return run(with_words(with_words(command(), {"--resume"}), words));
  }
  [[nodiscard]] std::string whole_run() const {
    const Finished whole = run(fixture_.command(plan_, kSteps, fixture_.file("whole")));
    INFO(whole.output);
    REQUIRE(whole.exit_code == 0);
    return fixture_.file("whole");
  }
  [[nodiscard]] const TrainFixture& fixture() const { return fixture_; }
  [[nodiscard]] const std::string& out() const { return out_; }

 private:
  const TrainFixture fixture_;
  const std::string plan_, out_;
};

/// Kills one job after the other until no kills are left.
class Kills {
 public:
  Kills(unsigned kills, unsigned seed, DataType dtype, Clipping clipping, Snapshot snapshot,
        int every)
      : left_(static_cast<int>(kills)),
        seed_(seed),
        lost_(snapshot == Snapshot::Redo ? 0 : every),
        fixture_(dtype) {
    Plan plan = plan_with(snapshot, fixture_, 2, every);
    plan.gradient_ring = 3;  // without effect where gradients are kept
    plan.clipping = clipping;
    plan.cpu_adam_threads = 2;
    plan_ = fixture_.write_plan("plan", plan);
    const Finished whole = run(command(fixture_.file("whole"), false));
    INFO(whole.output);
    REQUIRE(whole.exit_code == 0);
    REQUIRE(memory_of(fixture_.file("whole")).empty());
    whole_seconds_ = whole.seconds;
  }

  void run_chain(unsigned chain) {
    std::mt19937 random(seed_ + chain);
    for (int job = 0; left_ > 0; ++job) {
      run_job(fixture_.file(fmt::format("chain-{}-{}", chain, job)), random);
    }
  }

  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  [[nodiscard]] int num_from_memory() const { return from_memory_; }

 private:
  [[nodiscard]] std::vector<std::string> command(const std::string& out, bool resumes) const {
    auto words =
        with_words(fixture_.command(plan_, kSteps, out),
                   {"--gpus", "2", "--checkpoint-every", "0", "--export", out + "/exported"});
    if (resumes) words.emplace_back("--resume");
    return words;
  }

  void run_job(const std::string& out, std::mt19937& random) {
    for (int life = 0; life < 100; ++life) {
      const bool resumes =
          find_run_memory(kSharedMemoryFolder, identity_of(out)).memory.has_value();
      if (!resumes) forget(out);
      if (!live(out, resumes, random)) continue;
      if (result_of(out) != result_of(fixture_.file("whole"))) complain(out + ": other weights");
      if (loss_curve(out) != loss_curve(fixture_.file("whole"))) complain(out + ": other losses");
      if (!memory_of(out).empty()) complain(out + ": memory is left");
      fs::remove_all(out);
      return;
    }
    complain(out + ": never done");
  }

  /// Whatever was killed before its first step begins anew.
  void forget(const std::string& out) {
    std::vector<RankMemory> held;
    const std::string run = identity_of(out);
    if (!run.empty()) static_cast<void>(remove_run_memory(kSharedMemoryFolder, run, held));
    if (!held.empty()) complain(out + ": its memory is held after its end");
    fs::remove_all(out);
  }

  [[nodiscard]] static std::string result_of(const std::string& out) {
    return read_any_file(out + "/exported/model.safetensors");
  }

  bool live(const std::string& out, bool resumes, std::mt19937& random) {
    const LossCurve before = loss_curve(out);
    const unsigned victim = random() % 4;
    RunningProgram program(command(out, resumes));
    if (left_ > 0) {
      wait_for_moment(out, std::ssize(before.steps), random);
      if (kill(victim, out, program.process())) --left_;
    }
    const Finished finished = program.wait(120);
    if (!wait_until_gone(out, 30).empty()) complain(out + ": processes are left");
    check_memory(out);
    const std::int64_t from = number_after(finished.output, "resuming from memory (step ");
    const std::int64_t reported = before.steps.empty() ? 0 : before.steps.back();
    if (resumes && finished.output.find("resuming") != std::string::npos &&
        from + lost_ < reported) {
      complain(fmt::format("{}: step {} was reported, and it went on from {}:\n{}", out, reported,
                           from, finished.output));
    }
    from_memory_ += from > 0 ? 1 : 0;
    if (finished.exit_code == 2) complain(out + ": refused:\n" + finished.output);
    return finished.exit_code == 0;
  }

  /// Waits for some time, or for some steps: a job spends most of its time on its start.
  void wait_for_moment(const std::string& out, std::int64_t done, std::mt19937& random) const {
    const double moment = std::uniform_real_distribution<>(0.2, 1.0)(random) * whole_seconds_;
    const std::int64_t steps = done + 1 + static_cast<std::int64_t>(random() % (kSteps / 2));
    if (random() % 4 == 0) return sleep_for(moment);
    for (int i = 1; num_steps(out) < steps; ++i) {
      const bool is_late = i % 100 == 0 && processes_of(out).empty();
      if (is_late) return;
      sleep_for(0.005);
    }
  }

  static bool kill(unsigned victim, const std::string& out, pid_t launcher) {
    constexpr unsigned kLauncher = 2, kAll = 3;
    if (victim == kLauncher) return ::kill(launcher, SIGKILL) == 0;
    const std::vector<pid_t> ranks = ranks_of(out, 2);
    if (ranks.empty()) return false;
    if (victim != kAll) return ::kill(ranks[victim], SIGKILL) == 0;
    bool hit = false;
    for (const pid_t rank : ranks) hit |= ::kill(rank, SIGKILL) == 0;
    return hit;
  }

  void check_memory(const std::string& out) {
    for (const RankMemory& memory : memory_of(out)) {
      struct stat status{};
      if (::stat(memory.path.c_str(), &status) != 0) continue;
      if ((status.st_mode & 07777) != (S_IRUSR | S_IWUSR)) complain(memory.path + ": its mode");
    }
  }

  void complain(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    problems_.push_back(problem);
  }

  std::atomic<int> left_, from_memory_ = 0;
  const unsigned seed_;
  /// Steps that may be lost though they were reported: rank 0 may report one whose version another
  /// rank has not marked yet, or which is not copied yet. With a redo log all ranks' marks come
  /// first.
  const std::int64_t lost_;
  const TrainFixture fixture_;
  std::string plan_;
  double whole_seconds_ = 0;
  std::mutex mutex_;
  std::vector<std::string> problems_;
};

/// Does one of `share` parts of the kills, in `num_chains` jobs at once.
void kill_jobs(DataType dtype, Clipping clipping, Snapshot snapshot, unsigned share,
               unsigned num_chains = kChains, int every = 1) {
  const unsigned kills = environment_number("ATHANOR_SNAPSHOT_KILLS", 20) / share;
  const unsigned seed = environment_number("ATHANOR_SNAPSHOT_SEED", std::random_device{}());
  std::cout << "ATHANOR_SNAPSHOT_SEED=" << seed << std::endl;
  Kills jobs(kills, seed, dtype, clipping, snapshot, every);
  std::vector<std::thread> chains;
  for (unsigned chain = 0; chain < num_chains; ++chain) {
    chains.emplace_back([&jobs, chain] { jobs.run_chain(chain); });
  }
  for (std::thread& chain : chains) chain.join();
  std::cout << jobs.num_from_memory() << " times from memory" << std::endl;
  CHECK(jobs.num_from_memory() > static_cast<int>(kills) / 3);
  for (const std::string& problem : jobs.problems()) FAIL_CHECK(problem);
}

}  // namespace

TEST_CASE("killed jobs go on from memory to the same bits") {
  kill_jobs(DataType::BFloat16, Clipping::Wait, Snapshot::Redo, 2);
}

TEST_CASE("killed jobs go on from memory to the same bits, without clipping and in fp32") {
  kill_jobs(DataType::Float32, Clipping::None, Snapshot::Redo, 2);
}

TEST_CASE("killed jobs go on from a version in memory to the same bits") {
  kill_jobs(DataType::BFloat16, Clipping::None, Snapshot::Versions, 2);
}

TEST_CASE("killed jobs go on from a version in memory to the same bits, with clipping") {
  kill_jobs(DataType::BFloat16, Clipping::Speculate, Snapshot::Versions, 4);
}

TEST_CASE("killed jobs go on from a version in memory to the same bits, with clipping in fp32") {
  kill_jobs(DataType::Float32, Clipping::Wait, Snapshot::Versions, 4);
}

TEST_CASE("killed jobs go on from copies of their state in memory to the same bits") {
  kill_jobs(DataType::BFloat16, Clipping::Wait, Snapshot::Copy, 5, 2);
}

TEST_CASE("killed jobs go on from copies in memory to the same bits, without clipping in fp32") {
  kill_jobs(DataType::Float32, Clipping::None, Snapshot::Copy, 5, 2);
}

TEST_CASE(
    "killed jobs with copies in some steps lose the steps since, and end with the same bits") {
  kill_jobs(DataType::BFloat16, Clipping::Wait, Snapshot::Copy, 10, 1, 7);
}

TEST_CASE("a killed run leaves its memory, which its resumption or athanor clean frees") {
  const KilledRun killed("0");
  REQUIRE(memory_of(killed.out()).size() == 1);
  SECTION("resumption") {
    const std::int64_t reported = loss_curve(killed.out()).steps.back();
    const Finished resumed = killed.resume();
    INFO(resumed.output);
    REQUIRE(resumed.exit_code == 0);
    CHECK(number_after(resumed.output, "resuming from memory (step ") >= reported);
    CHECK(loss_curve(killed.out()) == loss_curve(killed.whole_run()));
  }
  SECTION("a signal while it goes on") {
    RunningProgram program(with_words(killed.command(), {"--resume"}));
    sleep_for(1);
    ::kill(program.process(), SIGTERM);
    const Finished stopped = program.wait(60);
    INFO(stopped.output);
    CHECK((stopped.exit_code == 5 || stopped.exit_code == 0));
    CHECK(killed.resume().exit_code == 0);
    CHECK(loss_curve(killed.out()) == loss_curve(killed.whole_run()));
  }
  SECTION("athanor clean") {
    const Finished other = run(replaced(killed.command(), "--output", killed.out() + "-other"));
    INFO(other.output);
    CHECK(other.output.find("of memory in /dev/shm") != std::string::npos);
    CHECK(other.exit_code == 0);
    const Finished cleaned = run({ATHANOR_BIN_DIR "/athanor", "clean", killed.out()});
    INFO(cleaned.output);
    CHECK(cleaned.exit_code == 0);
    CHECK(cleaned.output.find("freed") != std::string::npos);
  }
  CHECK(memory_of(killed.out()).empty());
}

TEST_CASE("the memory of a living run is not freed") {
  const KilledRun killed("7", [](const std::string& out) {
    CHECK(memory_of(out).size() == 1);
    const Finished cleaned = run({ATHANOR_BIN_DIR "/athanor", "clean", out});
    CHECK(cleaned.output.find("kept") != std::string::npos);
    CHECK(memory_of(out).size() == 1);
  });
  CHECK(killed.resume().exit_code == 0);
}

TEST_CASE("the launcher starts a killed job again, and says what that took") {
  const TrainFixture fixture;
  const int processes = GENERATE(1, 2);
  const std::string plan = fixture.write_plan("plan", redo_plan(fixture, processes));
  const std::string out = fixture.file("run");
  const auto command = [&](const std::string& folder) {
    const std::vector<std::string> words = fixture.command(plan, kSteps, folder);
    return processes == 1 ? words : with_words(words, {"--gpus", "2"});
  };
  RunningProgram program(with_words(command(out), {"--max-restarts", "3"}));
  for (const unsigned victim : {1U, 0U}) {
    const std::vector<pid_t> ranks = wait_for_steps(out, 30, processes);
    ::kill(ranks[std::min<std::size_t>(victim, ranks.size() - 1)], SIGKILL);
    const std::int64_t done = num_steps(out);
    for (int i = 0; i < 1000 && num_steps(out) <= done + 2; ++i) sleep_for(0.02);
  }
  const Finished finished = program.wait(120);
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  const std::size_t times = finished.output.find("went on from memory");
  REQUIRE(times != std::string::npos);
  std::cout << finished.output.substr(times, finished.output.find('\n', times) - times)
            << std::endl;
  CHECK(finished.output.find("restart 2 of 3") != std::string::npos);
  CHECK((processes > 1 || finished.output.find("was killed by SIGKILL") != std::string::npos));
  CHECK(memory_of(out).empty());
  REQUIRE(run(command(fixture.file("whole"))).exit_code == 0);
  CHECK(loss_curve(out) == loss_curve(fixture.file("whole")));
  const std::string metrics = read_any_file(out + "/metrics.jsonl");
  for (const char* const key : {"from", "ending(s)", "restart(s)", "load(s)", "first_step(s)"}) {
    CHECK(metrics.find(fmt::format("\"recovery_metrics/{}\":", key)) != std::string::npos);
  }
}

TEST_CASE("a snapshot that is damaged is said, and the checkpoint on disk serves") {
  const KilledRun killed;
  REQUIRE(memory_of(killed.out()).size() == 1);
  const std::string path = memory_of(killed.out()).front().path;
  const int file = ::open(path.c_str(), O_RDWR);
  REQUIRE(::pwrite(file, "damage", 6, 16) == 6);
  ::close(file);
  const Finished resumed = killed.resume();
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(resumed.output.find("damaged") != std::string::npos);
  CHECK(resumed.output.find("checkpoints/step-") != std::string::npos);
  CHECK(loss_curve(killed.out()) == loss_curve(killed.whole_run()));
  CHECK(memory_of(killed.out()).empty());
}

TEST_CASE("a snapshot is not taken over by another plan") {
  const KilledRun killed("0");
  Plan other = redo_plan(killed.fixture(), 1);
  other.chunk_elements = 1500;
  for (std::size_t i = 0; i < other.units.size(); ++i) {
    other.units[i].chunks.front().count =
        num_chunks(killed.fixture().architecture().units[i], other.chunk_elements, 1);
  }
  const auto plan = killed.fixture().write_plan("other", other);
  for (const Finished& refused :
       {run(with_words(replaced(killed.command(), "--plan", plan), {"--resume"})),
        killed.resume({"--snapshot", "versions"})}) {
    INFO(refused.output);
    CHECK(refused.exit_code == 2);
    CHECK(refused.output.find("athanor clean") != std::string::npos);
    CHECK(memory_of(killed.out()).size() == 1);
  }
}

TEST_CASE("a full /dev/shm is said before anything starts") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", redo_plan(fixture, 2));
  const std::string out = fixture.file("run");
  std::string command;
  for (const std::string& word : with_words(fixture.command(plan, 4, out), {"--gpus", "2"})) {
    command += "'" + word + "' ";
  }
  // The fixture's own folder may lie there.
  const std::string mounts = fmt::format(
      "F={}; mount --bind $F /mnt && mount -t tmpfs -o size=512k t /dev/shm && mkdir -p $F && "
      "mount --bind /mnt $F && ",
      fixture.file(""));
  const auto in_small_memory = [&](const std::string& script) {
    return run({"unshare", "-rm", "sh", "-c", mounts + script});
  };
  if (in_small_memory("true").exit_code != 0) SKIP("no mount namespaces here");
  const Finished refused = in_small_memory(command + "; code=$?; ls /dev/shm; exit $code");
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("--shm-size=") != std::string::npos);
  CHECK(refused.output.find("athanor-") == refused.output.find("athanor-train"));
  CHECK_FALSE(fs::exists(out + "/run.json"));
}

TEST_CASE("snapshots are refused where state is not in host memory") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  for (const std::string way : {"redo", "versions"}) {
    const Finished refused =
        run(with_words(fixture.command(plan, 4, fixture.file("run")), {"--snapshot", way}));
    INFO(refused.output);
    CHECK(refused.exit_code == 2);
    CHECK(refused.output.find("on the GPU") != std::string::npos);
    CHECK(refused.output.find("athanor tune --snapshot " + way) != std::string::npos);
  }
}
