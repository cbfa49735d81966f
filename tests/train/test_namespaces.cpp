// SPDX-License-Identifier: Apache-2.0
// Ranks on two "machines": network namespaces with host names and process numbers of their own,
// that share no folder for their watch. Skipped where namespaces cannot be made.
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

namespace {

using namespace athanor::test;

constexpr double kLimit = 30;

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Two namespaces, a and b, with a link between them. A slow link leads through a third, m.
class TwoMachines {
 public:
  explicit TwoMachines(double delay = 0) {
    works_ = succeeds("unshare --net --pid --uts --mount --fork --mount-proc true") &&
             succeeds("mpirun --version");
    for (const char side : {'a', 'b', 'm'}) make("ip netns add " + name(side));
    if (delay == 0) {
      join('a', link('a'), 'b', link('b'));
    } else {
      join('a', link('a'), 'm', link('c'));
      join('b', link('b'), 'm', link('d'));
    }
    for (const char side : {'a', 'b'}) {
      make(fmt::format("ip -n {} addr add {}/24 dev {}", name(side), address(side), link(side)));
      make(fmt::format("ip -n {} link set lo up", name(side)));
    }
    if (works_ && delay > 0) {
      carrier_.emplace(std::vector<std::string>{"ip", "netns", "exec", name('m'), ATHANOR_SLOW_LINK,
                                                link('c'), link('d'), fmt::format("{}", delay)});
    }
    write_agent();
  }
  ~TwoMachines() {
    for (const char side : {'a', 'b', 'm'}) succeeds("ip netns del " + name(side));
  }
  TwoMachines(const TwoMachines&) = delete;
  TwoMachines& operator=(const TwoMachines&) = delete;

  [[nodiscard]] bool works() const { return works_; }
  void cut() const {
    CHECK(succeeds(fmt::format("ip -n {} link set {} down", name('a'), link('a'))));
  }
  /// Returns the words that run `command` as rank 0 on a and rank 1 on b.
  [[nodiscard]] std::vector<std::string> across(const std::vector<std::string>& command) const {
    const std::string network = subnet() + ".0/24";
    std::vector<std::string> words = on('a');
    for (const std::string& word :
         std::vector<std::string>{"mpirun",
                                  "--allow-run-as-root",
                                  "-np",
                                  "2",
                                  "--bind-to",
                                  "none",
                                  "--oversubscribe",
                                  "--mca",
                                  "plm_rsh_agent",
                                  folder_.file("agent"),
                                  "--mca",
                                  "oob_tcp_if_include",
                                  network,
                                  "--mca",
                                  "btl_tcp_if_include",
                                  network,
                                  "--mca",
                                  "orte_tmpdir_base",
                                  folder_.file(""),
                                  "--host",
                                  fmt::format("{}:1,{}:1", address('a'), address('b'))}) {
      words.push_back(word);
    }
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

 private:
  void make(const std::string& command) { works_ = works_ && succeeds(command); }
  /// Makes an interface on each of two sides, with a cable between them.
  void join(char side, const std::string& interface, char other_side, const std::string& other) {
    make(fmt::format("ip link add {} netns {} type veth peer name {} netns {}", interface,
                     name(side), other, name(other_side)));
    make(fmt::format("ip -n {} link set {} up", name(side), interface));
    make(fmt::format("ip -n {} link set {} up", name(other_side), other));
  }

  [[nodiscard]] std::string name(char side) const {
    return fmt::format("athanor-{}-{}", id_, side);
  }
  [[nodiscard]] std::string link(char side) const { return fmt::format("ath{}{}", id_, side); }
  [[nodiscard]] std::string subnet() const { return fmt::format("10.213.{}", id_ % 250); }
  [[nodiscard]] std::string address(char side) const {
    return subnet() + (side == 'a' ? ".1" : ".2");
  }
  [[nodiscard]] std::vector<std::string> on(char side) const {
    return {"ip",
            "netns",
            "exec",
            name(side),
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
            fmt::format("hostname machine-{}; exec \"$@\"", side),
            "sh"};
  }
  /// The program with which mpirun starts its own on b, in place of ssh.
  void write_agent() const {
    const std::string path = folder_.file("agent");
    std::ofstream(path) << fmt::format(
        "#!/bin/sh\nshift\nexec ip netns exec {} unshare --mount --uts --pid --fork --mount-proc "
        "--kill-child sh -c \"hostname machine-b; $*\"\n",
        name('b'));
    succeeds("chmod +x " + path);
  }

  const int id_ = ::getpid() % 100000;
  TemporaryFolder folder_;
  bool works_ = false;
  std::optional<RunningProgram> carrier_;
};

struct Job {
  explicit Job(double delay = 0) : machines(delay) {}

  TwoMachines machines;
  TrainFixture fixture;
  std::string out = fixture.file("run");

  [[nodiscard]] std::vector<std::string> command(int steps) const {
    const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(2, 2));
    return machines.across(fixture.command(plan, steps, out));
  }
};

/// Checks that a job ends in time after `blow` and names rank 1.
template <typename Blow>
void check_named(const Job& job, const std::string& what, const Blow& blow) {
  RunningProgram program(job.command(1000000));
  const std::vector<pid_t> ranks = wait_for_steps(job.out, 60);
  blow(ranks);
  const auto start = std::chrono::steady_clock::now();
  CHECK(wait_until_gone(job.out, kLimit).empty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const Finished finished = program.wait(600);
  INFO(finished.output);
  CHECK(took.count() < kLimit);
  CHECK(finished.exit_code != 0);
  CHECK(finished.output.find("rank 1 (process ") != std::string::npos);
  CHECK(finished.output.find("on machine-b) " + what) != std::string::npos);
}

}  // namespace

TEST_CASE("ranks on two machines train") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  const Finished finished = run(job.command(200), 300);
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
}

TEST_CASE("a link with a delay of 200 ms ends no job") {
  const Job job(0.2);
  if (!job.machines.works()) SKIP("no namespaces here");
  const auto steps = static_cast<int>(environment_number("ATHANOR_SLOW_STEPS", 20));
  const Finished finished = run(job.command(steps), 100 + 5 * steps);
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(finished.seconds > 0.2 * steps);  // at least one collective a step waited for it
}

TEST_CASE("a killed rank of another machine is named") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  check_named(job, "has died", [](const std::vector<pid_t>& ranks) { ::kill(ranks[1], SIGKILL); });
}

TEST_CASE("a stopped rank of another machine is named") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  check_named(job, "has not been heard from",
              [](const std::vector<pid_t>& ranks) { ::kill(ranks[1], SIGSTOP); });
}

TEST_CASE("a cut link ends the job on both sides") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  check_named(job, "has not been heard from",
              [&](const std::vector<pid_t>&) { job.machines.cut(); });
}
