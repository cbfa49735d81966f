// SPDX-License-Identifier: Apache-2.0
// Starts the program that knows the verb of `athanor VERB ..`. The programs stay separate because
// they link different libraries: the simulator needs no LibTorch, and the trainer no SimGrid.
#include "cli/common/command_line.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::cli {
namespace {

struct Verb {
  std::string_view name;
  std::string_view program;
  std::string_view summary;
};

constexpr std::array<Verb, 16> kVerbs{{
    {"doctor", "athanor-doctor", "say what this machine has and lacks"},
    {"calibrate", "athanor-calibrate", "measure this machine -> platform.json"},
    {"profile", "athanor-calibrate", "measure a model on it -> profile.json"},
    {"simulate", "athanor-sim", "predict one plan's step time and memory"},
    {"tune", "athanor-sim", "find the fastest plan that fits -> plan.json"},
    {"tokenize", "athanor-tokenize.pyz", "turn chats, text or images into training data"},
    {"trace", "athanor-trace.pyz", "make units of a model that athanor has none for"},
    {"train", "athanor-train", "train under a plan -> a run folder"},
    {"clean", "athanor-train", "free the memory that killed runs have left"},
    {"compare", "athanor-sim", "lay a run's measurements over its prediction"},
    {"repredict", "athanor-sim", "predict a run again with the rates of its first steps"},
    {"retune", "athanor-sim", "tune a run's plan again with the rates that the run has measured"},
    {"report", "athanor-sim", "draw a run, plan, search or platforms as one HTML page"},
    {"show", "athanor-sim", "print a model, plan, program, platform or profile"},
    {"import", "athanor-sim", "take what other tools measured into platforms and profiles"},
    {"pool", "athanor-sim", "combine platforms that were measured on machines of one kind"},
}};

std::string help_text() {
  std::string text =
      "Trains models larger than GPU memory: measures the machine, simulates the plans, runs the "
      "best.\n\nUsage: athanor VERB [OPTIONS]\n\nVerbs:\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  text += "\n`athanor VERB --help` lists a verb's options.\n";
  return text;
}

const Verb& find_verb(std::string_view name) {
  std::string known;
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) return verb;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", verb.name);
  }
  throw InputError("", fmt::format("unknown verb \"{}\"", name),
                   fmt::format("Use one of {}.", known));
}

/// Returns the path of `program`: in the folder of this program if it is there, else by PATH.
std::string locate(std::string_view program) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / program;
  return !error && access(beside.c_str(), R_OK) == 0 ? beside.string() : std::string(program);
}

/// Returns the Python that runs programs of the project that are written in it.
std::string python() {
  const char* const named = std::getenv("ATHANOR_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

/// Starts a Python program, which lies beside this one.
[[noreturn]] void start_python(std::string program, std::span<char*> arguments) {
  std::string interpreter = python();
  std::vector<char*> argv{interpreter.data(), program.data()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  argv.push_back(nullptr);
  execvp(interpreter.c_str(), argv.data());
  throw Error(fmt::format(
      "cannot start {}: {}. Name a Python that has transformers: ATHANOR_PYTHON=.venv/bin/python",
      interpreter, strerror(errno)));
}

[[noreturn]] void start(const Verb& verb, std::span<char*> arguments) {
  std::string program = locate(verb.program);
  const bool found = program != verb.program;
  if (found && program.ends_with(".pyz")) start_python(program, arguments);
  std::vector<char*> argv{program.data()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  argv.push_back(nullptr);
  execvp(program.c_str(), argv.data());
  if (errno != ENOENT) throw Error(fmt::format("cannot start {}: {}", program, strerror(errno)));
  throw Error(fmt::format(
      "{} is not installed, so there is no verb \"{}\" here. Build athanor with what it needs "
      "(cmake prints which parts are left out and why), or add it to PATH.",
      verb.program, verb.name));
}

int run(std::span<char*> arguments) {
  if (arguments.empty()) throw InputError("", "no verb given", "See athanor --help.");
  const std::string_view first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    fmt::print("{}", help_text());
    return kExitDone;
  }
  if (first == "--version") {
    fmt::print("{}\n", version_text());
    return kExitDone;
  }
  start(find_verb(first), arguments);
}

}  // namespace
}  // namespace athanor::cli

int main(int argc, char** argv) {
  return athanor::run_main("athanor", [&] {
    const std::span<char*> all(argv, static_cast<std::size_t>(argc));
    return athanor::cli::run(all.subspan(std::min<std::size_t>(1, all.size())));
  });
}
