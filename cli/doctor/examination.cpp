// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/examination.hpp"

#include "cli/common/command_line.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/kernel_text.hpp"
#include "sim/base/printable.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace athanor::cli {
namespace {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Good:
      return "good";
    case Verdict::Costs:
      return "costs";
    case Verdict::Blocks:
      break;
  }
  return "blocks";
}

std::string unquoted(const std::string& text) {
  const bool is_quoted = text.size() > 1 && text.front() == '"' && text.back() == '"';
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

std::array<Program, 3> programs() {
  const std::string build = "Build it (./dev setup && ./dev build), or install the wheel athanor.";
  return {{
      {"tune", "athanor-sim", Verdict::Blocks, "nothing can be simulated or tuned",
       "Build it (./dev setup --sim-only && ./dev build --preset sim-only), or install the wheel "
       "athanor-sim."},
      {"train", "athanor-train", Verdict::Blocks, "nothing can be trained", build},
      {"calibrate", "athanor-calibrate", Verdict::Costs,
       "this machine and new models cannot be measured, so tune takes measured files alone", build},
  }};
}

}  // namespace

Findings examine(const Machine& machine) {
  const PythonFacts python = ask_python(machine);
  const NvmlFacts nvml = ask_nvml(machine);
  Findings findings;
  for (const Program& program : programs()) findings.push_back(check_program(machine, program));
  const Findings others{check_driver(machine, nvml), check_cuda_plugin(machine, nvml),
                        check_energy_counter(nvml),  check_cupti(machine, nvml, python),
                        check_peers(machine, nvml),  check_memory(machine),
                        check_cores(machine),        check_locked_memory(machine),
                        check_numa(machine),         check_shared_memory(machine),
                        check_folder(machine),       check_mpi(machine),
                        check_python(python)};
  findings.insert(findings.end(), others.begin(), others.end());
  return findings;
}

bool works(const Findings& findings) {
  return std::ranges::none_of(findings,
                              [](const Finding& f) { return f.verdict == Verdict::Blocks; });
}

std::string as_text(const Findings& findings) {
  std::string text, blocked;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<6}  {:<14}  {}\n", name_of(finding.verdict), finding.name,
                        printable(finding.found));
    if (finding.verdict == Verdict::Good) continue;
    text += fmt::format("{:24}It costs: {}.\n{:24}Way out: {}\n", "", finding.cost, "",
                        finding.way_out);
    if (finding.verdict != Verdict::Blocks) continue;
    blocked += fmt::format("{}{}", blocked.empty() ? "" : ", ", finding.name);
  }
  text += blocked.empty() ? "Training and tuning work here.\n"
                          : fmt::format("What does not work here: {}.\n", blocked);
  return text;
}

nlohmann::json as_json(const Machine& machine, const Findings& findings) {
  nlohmann::json entries = nlohmann::json::array();
  for (const Finding& finding : findings) {
    entries.push_back({{"name", finding.name},
                       {"verdict", name_of(finding.verdict)},
                       {"found", printable(finding.found)},
                       {"cost", finding.cost},
                       {"way_out", finding.way_out}});
  }
  return {{"version", version_text()},
          {"system", unquoted(field(machine.text("/etc/os-release"), "PRETTY_NAME="))},
          {"kernel", first_line(machine.text("/proc/version"))},
          {"processor", field(machine.text("/proc/cpuinfo"), "model name\t: ")},
          {"works", works(findings)},
          {"findings", entries}};
}

}  // namespace athanor::cli
