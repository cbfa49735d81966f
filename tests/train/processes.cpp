// SPDX-License-Identifier: Apache-2.0
#include "tests/train/processes.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace athanor::test {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs in the child: sends stdout and stderr to the file, then starts the program.
[[noreturn]] void become(const std::vector<std::string>& command, const std::string& output) {
  ::setpgid(0, 0);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  ::_exit(127);
}

}  // namespace

RunningProgram::RunningProgram(const std::vector<std::string>& command) : started_(now()) {
  std::string name = (std::filesystem::temp_directory_path() / "athanor-log-XXXXXX").string();
  ::close(::mkstemp(name.data()));
  output_path_ = name;
  process_ = ::fork();
  if (process_ == 0) become(command, output_path_);
  ::setpgid(process_, process_);
}

RunningProgram::~RunningProgram() {
  if (!finished_) {
    signal_all(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  std::filesystem::remove(output_path_);
}

void RunningProgram::signal_all(int signal) const { ::kill(-process_, signal); }

Finished RunningProgram::wait(double limit) {
  Finished result;
  int status = 0;
  std::string verdict;
  while (::waitpid(process_, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (now() - started_ < limit) continue;
    signal_all(SIGKILL);
    ::waitpid(process_, &status, 0);
    verdict = "\n(killed by the test: it did not end)";
    break;
  }
  finished_ = true;
  constexpr int kSignalBase = 128;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
  result.output = read_all(output_path_) + verdict;
  result.seconds = now() - started_;
  return result;
}

Finished run(const std::vector<std::string>& command, double limit) {
  return RunningProgram(command).wait(limit);
}

std::vector<std::string> with_processes(int count, std::vector<std::string> command) {
  if (count == 1) return command;
  std::vector<std::string> words{"mpirun",    "-np",  std::to_string(count),
                                 "--bind-to", "none", "--oversubscribe"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

unsigned environment_number(const char* variable, unsigned otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

}  // namespace athanor::test
