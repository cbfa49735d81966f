// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/run_program.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace athanor::test {
namespace {

std::string read_all(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Opens `path` as the descriptor `wanted`. Runs in the child, after fork.
void redirect(const char* path, int flags, int wanted) {
  const int descriptor = open(path, flags, 0600);
  if (descriptor < 0 || dup2(descriptor, wanted) < 0) _exit(127);
}

}  // namespace

ProgramResult run_program(const std::string& program, const std::vector<std::string>& arguments,
                          unsigned limit_seconds) {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  const std::string err = folder.file("err");
  std::vector<std::string> words{program.front() == '/' ? program : ATHANOR_BIN_DIR "/" + program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(out.c_str(), O_WRONLY | O_CREAT, STDOUT_FILENO);
    redirect(err.c_str(), O_WRONLY | O_CREAT, STDERR_FILENO);
    alarm(limit_seconds);
    execv(argv.front(), argv.data());
    _exit(127);
  }
  int status = 0;
  struct rusage usage{};
  if (wait4(child, &status, 0, &usage) != child) throw std::runtime_error("cannot wait");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_all(out), read_all(err), usage.ru_maxrss};
}

}  // namespace athanor::test
