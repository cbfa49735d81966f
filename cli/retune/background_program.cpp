// SPDX-License-Identifier: Apache-2.0
#include "cli/retune/background_program.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace athanor::cli {
namespace {

struct Pipe {
  Descriptor out, in;
};

/// Makes a pipe of which this process reads one end without waiting, and which no other program
/// inherits.
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(fmt::format("pipe: {}", std::strerror(errno)));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Actions of posix_spawn in the child: only the two pipes stay open.
class FileActions {
 public:
  FileActions(int output, int errors) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
  }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// The signals of the child. This process catches some that end the child.
class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  [[nodiscard]] const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

/// Lets the process run only where nobody else wants a core. posix_spawn's attributes know no such
/// policy.
void make_idle(pid_t process) {
  const sched_param parameters{};
  if (::sched_setscheduler(process, SCHED_IDLE, &parameters) == 0 || errno == ESRCH) return;
  throw Error(fmt::format("its priority cannot be lowered: {}", std::strerror(errno)));
}

void end(pid_t process) {
  ::kill(process, SIGKILL);
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// Returns the path of a program beside this one, or its name where it is not there.
std::string locate(const std::string& program) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / program;
  return !error && ::access(beside.c_str(), X_OK) == 0 ? beside.string() : program;
}

/// Appends what can be read now. More than a megabyte is read and left out.
void read_some(const Descriptor& from, std::string& text) {
  constexpr std::size_t kMost = 1 << 20;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    if (text.size() < kMost) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

BackgroundProgram::BackgroundProgram(const std::string& program, std::vector<std::string> arguments,
                                     Priority priority)
    : name_(program) {
  const std::string path = locate(program);
  arguments.insert(arguments.begin(), program);
  start(path, arguments);
  try {
    if (priority == Priority::Idle) make_idle(process_);
  } catch (const Error&) {
    stop();
    throw;
  }
}

void BackgroundProgram::start(const std::string& path, std::vector<std::string>& words) {
  Pipe output = make_pipe(), errors = make_pipe();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const FileActions actions(output.in.get(), errors.in.get());
  const Attributes attributes;
  const int error = ::posix_spawnp(&process_, path.c_str(), actions.get(), attributes.get(),
                                   argv.data(), environ);
  if (error != 0) {
    process_ = -1;
    throw Error(error == ENOENT ? fmt::format("{} is not installed", name_)
                                : fmt::format("{}: {}", name_, std::strerror(error)));
  }
  output_ = std::move(output.out);
  errors_ = std::move(errors.out);
}

BackgroundProgram::~BackgroundProgram() { stop(); }

void BackgroundProgram::stop() noexcept {
  if (process_ > 0) end(process_);
  process_ = -1;
}

void BackgroundProgram::read_all() {
  read_some(output_, printed_);
  read_some(errors_, complaints_);
}

std::optional<BackgroundProgram::Result> BackgroundProgram::poll() {
  if (process_ <= 0) return std::nullopt;
  read_all();
  int status = 0;
  const pid_t ended = ::waitpid(process_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  process_ = -1;
  if (ended < 0) return Result{{}, fmt::format("{}: {}", name_, std::strerror(errno))};
  read_all();
  return result_of(status);
}

BackgroundProgram::Result BackgroundProgram::result_of(int status) const {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {printed_, {}};
  if (!complaints_.empty()) return {{}, first_line(complaints_)};
  return {{},
          WIFSIGNALED(status)
              ? fmt::format("{} was ended by signal {}", name_, WTERMSIG(status))
              : fmt::format("{} ended with exit code {}", name_, WEXITSTATUS(status))};
}

}  // namespace athanor::cli
