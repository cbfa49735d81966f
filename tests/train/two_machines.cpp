// SPDX-License-Identifier: Apache-2.0
#include "tests/train/two_machines.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace athanor::test {
namespace {

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

TwoMachines::TwoMachines(double delay) : id_(::getpid() % 100000) {
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

TwoMachines::~TwoMachines() {
  for (const char side : {'a', 'b', 'm'}) succeeds("ip netns del " + name(side));
}

void TwoMachines::cut() const {
  CHECK(succeeds(fmt::format("ip -n {} link set {} down", name('a'), link('a'))));
}

void TwoMachines::give_own_memory(const std::string& shared) {
  shared_ = shared;
  for (const char side : {'a', 'b'}) std::filesystem::create_directory(memory_folder(side));
  write_agent();
}

std::string TwoMachines::memory_folder(char side) const {
  return fmt::format("{}/memory-of-{}", shared_, side);
}

/// Commands that mount the machine's own memory. Folders that this would hide are mounted in it.
std::string TwoMachines::mounts(char side) const {
  if (shared_.empty()) return {};
  const std::string hidden = "/dev/shm/", memory = memory_folder(side);
  std::string commands;
  for (const std::string& folder : {shared_, folder_.path().string()}) {
    if (!folder.starts_with(hidden)) continue;
    commands += fmt::format("mkdir -p {0}/{1} && mount --bind {2} {0}/{1} && ", memory,
                            folder.substr(hidden.size()), folder);
  }
  return fmt::format("{}mount --rbind {} /dev/shm && ", commands, memory);
}

std::vector<std::string> TwoMachines::across(const std::vector<std::string>& command,
                                             int ranks_each) const {
  const std::string network = subnet() + ".0/24";
  std::vector<std::string> words = on('a');
  words.insert(words.end(),
               {"mpirun",
                "--allow-run-as-root",
                "-np",
                std::to_string(2 * ranks_each),
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
                fmt::format("{}:{},{}:{}", address('a'), ranks_each, address('b'), ranks_each)});
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::vector<std::string> TwoMachines::torchrun(char side, const std::vector<std::string>& command,
                                               int ranks_each) const {
  std::vector<std::string> words = on(side);
  words.insert(words.end(),
               {ATHANOR_PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node",
                std::to_string(ranks_each), "--node-rank", side == 'a' ? "0" : "1", "--master-addr",
                address('a'), "--master-port", "29500", "--no-python"});
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string TwoMachines::listening(char side) const {
  return run({"ip", "netns", "exec", name(side), "ss", "-Hltn"}, 10).output;
}

void TwoMachines::make(const std::string& command) { works_ = works_ && succeeds(command); }

/// Makes an interface on each of two sides, with a cable between them.
void TwoMachines::join(char side, const std::string& interface, char other_side,
                       const std::string& other) {
  make(fmt::format("ip link add {} netns {} type veth peer name {} netns {}", interface, name(side),
                   other, name(other_side)));
  make(fmt::format("ip -n {} link set {} up", name(side), interface));
  make(fmt::format("ip -n {} link set {} up", name(other_side), other));
}

std::string TwoMachines::name(char side) const { return fmt::format("athanor-{}-{}", id_, side); }

std::string TwoMachines::link(char side) const { return fmt::format("ath{}{}", id_, side); }

std::string TwoMachines::subnet() const { return fmt::format("10.213.{}", id_ % 250); }

std::string TwoMachines::address(char side) const { return subnet() + (side == 'a' ? ".1" : ".2"); }

std::vector<std::string> TwoMachines::on(char side) const {
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
          fmt::format("hostname machine-{}; {}exec \"$@\"", side, mounts(side)),
          "sh"};
}

/// The program with which mpirun starts its own on b, in place of ssh.
void TwoMachines::write_agent() const {
  const std::string path = folder_.file("agent");
  std::ofstream(path) << fmt::format(
      "#!/bin/sh\nshift\nexec ip netns exec {} unshare --mount --uts --pid --fork --mount-proc "
      "--kill-child sh -c \"hostname machine-b; {}$*\"\n",
      name('b'), mounts('b'));
  succeeds("chmod +x " + path);
}

bool has_torchrun() { return !std::string_view(ATHANOR_PYTHON).empty(); }

TwoMachineJob::TwoMachineJob(const TwoMachines& machines, Launcher launcher,
                             const std::vector<std::string>& command, int ranks_each) {
  if (launcher == Launcher::Mpirun) {
    programs_.push_back(std::make_unique<RunningProgram>(machines.across(command, ranks_each)));
    return;
  }
  for (const char side : {'a', 'b'}) {
    programs_.push_back(
        std::make_unique<RunningProgram>(machines.torchrun(side, command, ranks_each)));
  }
}

Finished TwoMachineJob::wait(double limit) {
  Finished all;
  for (const auto& program : programs_) {
    const Finished one = program->wait(limit);
    all.output += one.output;
    if (all.exit_code == 0) all.exit_code = one.exit_code;
  }
  return all;
}

}  // namespace athanor::test
