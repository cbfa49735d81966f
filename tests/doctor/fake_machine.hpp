// SPDX-License-Identifier: Apache-2.0
// A machine that has everything, until a test takes something away.
#pragma once

#include "cli/doctor/examination.hpp"
#include "cli/doctor/machine.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

namespace athanor::test {

/// Answers of the fake machine's NVML.
struct FakeNvml {
  int init = 0;
  int cuda = 13000;
  unsigned num_gpus = 2;
  bool counts_energy = true;
  int peer_status = 0;
};
[[nodiscard]] FakeNvml& fake_nvml();
[[nodiscard]] void* fake_nvml_symbol(const char* wanted);

/// Two GPUs, 64 GiB, 16 processors, Open MPI, torch, and all of athanor's programs.
class FakeMachine {
 public:
  FakeMachine();

  void write(const std::string& path, const std::string& text) const;
  void remove(const std::string& path) const;
  [[nodiscard]] cli::Machine& machine() { return machine_; }
  std::set<std::string> libraries{"libnvidia-ml.so.1", "libcupti.so.13"};
  /// Outputs and ends of programs, by the last part of their path.
  std::map<std::string, cli::ProgramOutput> outputs;

  /// Returns the finding of that name. Throws where there is none.
  [[nodiscard]] cli::Finding finding(const std::string& name) const;

 private:
  TemporaryFolder folder_;
  cli::Machine machine_;
};

}  // namespace athanor::test
