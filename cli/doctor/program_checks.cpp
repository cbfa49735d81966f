// SPDX-License-Identifier: Apache-2.0
// athanor's own programs, and those of others that it starts.
#include "cli/doctor/checks.hpp"
#include "cli/doctor/kernel_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <utility>

namespace athanor::cli {
namespace {

/// Prints the versions of packages without importing them, which would take seconds.
constexpr const char* kQuestion = R"(
import importlib.metadata as m, importlib.util as u, json, pathlib, sys
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return ""
found = {name: version(name) for name in ("torch", "transformers", "safetensors")}
found["version"] = sys.version.split()[0]
spec = u.find_spec("torch") if found["torch"] else None
places = list(spec.submodule_search_locations) if spec else []
found["folders"] = [str(f) for p in places for f in pathlib.Path(p).parent.glob("nvidia/*/lib")]
print(json.dumps(found))
)";

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const std::size_t start = text.rfind('\n', end);
  return text.substr(start == std::string::npos ? 0 : start + 1, end - (start + 1) + 1);
}

}  // namespace

PythonFacts ask_python(const Machine& machine) {
  PythonFacts facts;
  const std::string named = machine.variable("ATHANOR_PYTHON");
  const std::string interpreter = machine.find_program(named.empty() ? "python3" : named);
  if (interpreter.empty()) return facts;
  const auto output = machine.run({interpreter, "-c", kQuestion});
  if (!output || output->exit_code != 0) return facts;
  const auto answer = nlohmann::json::parse(last_line(output->text), nullptr, false);
  if (!answer.is_object()) return facts;
  facts.interpreter = interpreter;
  facts.version = answer.value("version", "");
  facts.torch = answer.value("torch", "");
  facts.transformers = answer.value("transformers", "");
  facts.safetensors = answer.value("safetensors", "");
  facts.library_folders = answer.value("folders", std::vector<std::string>());
  return facts;
}

Finding check_program(const Machine& machine, const Program& program) {
  Finding finding{program.name, program.without, "", program.cost, program.way_out};
  const std::string path = machine.program_folder + "/" + program.file;
  if (!std::filesystem::exists(path)) {
    finding.found = program.file + " is not installed";
    return finding;
  }
  const auto output = machine.run({path, "--version"});
  if (!output || output->exit_code != 0) {
    finding.found = fmt::format("{} does not start: {}", program.file,
                                output ? last_line(output->text) : "it cannot be run");
  } else {
    return {program.name, Verdict::Good, first_line(output->text), "", ""};
  }
  return finding;
}

Finding check_python(const PythonFacts& python) {
  Finding finding{"python", Verdict::Costs, "", "athanor tokenize and trace do not run",
                  "Install them in a virtual environment (PyPI: torch, transformers, safetensors), "
                  "and name its Python: ATHANOR_PYTHON=.venv/bin/python."};
  if (python.interpreter.empty()) {
    finding.found = "no Python that starts (python3, or the one that ATHANOR_PYTHON names)";
    return finding;
  }
  finding.found = fmt::format("{} {}", python.interpreter, python.version);
  std::string missing;
  for (const auto& [name, version] :
       {std::pair("torch", python.torch), std::pair("transformers", python.transformers),
        std::pair("safetensors", python.safetensors)}) {
    if (version.empty()) {
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    } else {
      finding.found += fmt::format(", {} {}", name, version);
    }
  }
  if (missing.empty()) return {"python", Verdict::Good, finding.found, "", ""};
  finding.found += ", without " + missing;
  if (missing == "torch") finding.cost = "athanor trace does not run";
  return finding;
}

Finding check_mpi(const Machine& machine) {
  Finding finding{"mpi", Verdict::Costs, "",
                  "training on the CPU by more than one rank needs torchrun; GPUs need no launcher",
                  "Install Open MPI (Debian: openmpi-bin)."};
  const std::string launcher = machine.find_program("mpirun");
  if (launcher.empty()) {
    finding.found = "no mpirun in PATH";
    return finding;
  }
  const auto output = machine.run({launcher, "--version"});
  const std::string version = output ? first_line(output->text) : "";
  if (version.find("Open MPI") == std::string::npos) {
    finding.found = fmt::format("{} is not Open MPI's: {}", launcher, version);
    return finding;
  }
  return {"mpi", Verdict::Good, version, "", ""};
}

}  // namespace athanor::cli
