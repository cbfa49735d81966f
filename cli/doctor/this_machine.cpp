// SPDX-License-Identifier: Apache-2.0
// The machine that doctor runs on.
#include "cli/doctor/machine.hpp"
#include "sim/base/errors.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX has no header for it

namespace athanor::cli {
namespace {

struct Descriptor {
  int value = -1;
  explicit Descriptor(int opened) : value(opened) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void close() {
    if (value >= 0) ::close(value);
    value = -1;
  }
};

/// Libraries stay open until the process ends: drivers do not like to be unloaded.
Symbols open_library(const std::string& name) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  return [library](const char* symbol) { return ::dlsym(library, symbol); };
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = ::read(descriptor, part.data(), part.size());
    if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
  }
}

/// Starts a program with stdin closed and both outputs in `output`. Returns its process, or -1.
pid_t spawn(const std::vector<std::string>& words, int output) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return -1;
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> owner(
      &actions, &::posix_spawn_file_actions_destroy);
  pid_t process = -1;
  const bool started =
      ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
      ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) == 0 &&
      ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO) == 0 &&
      ::posix_spawnp(&process, argv.front(), &actions, nullptr, argv.data(), environ) == 0;
  return started ? process : -1;
}

std::optional<ProgramOutput> run(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  Descriptor reading(ends[0]), writing(ends[1]);
  const pid_t process = spawn(words, writing.value);
  writing.close();
  if (process < 0) return std::nullopt;
  ProgramOutput output{0, read_all(reading.value)};
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  constexpr int kKilled = 128;
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : kKilled + WTERMSIG(status);
  return output;
}

std::optional<Room> room(const std::string& folder) {
  struct statvfs found{};
  if (::statvfs(folder.c_str(), &found) != 0) return std::nullopt;
  const auto bytes = [&](fsblkcnt_t blocks) { return static_cast<Bytes>(blocks * found.f_frsize); };
  return Room{bytes(found.f_blocks), bytes(found.f_bavail)};
}

/// Writes one block into a file that has lost its name, and reads it back past the page cache: some
/// file systems accept the flag and then refuse to read.
FileAccess file_access(const std::string& folder) {
  constexpr std::size_t kBlock = 4096;
  std::string path = folder + "/athanor-doctor-XXXXXX";
  const Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (file.value < 0) return FileAccess::NotWritable;
  ::unlink(path.c_str());
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kBlock, kBlock),
                                                          &std::free);
  std::memset(block.get(), 0, kBlock);
  if (::pwrite(file.value, block.get(), kBlock, 0) != kBlock) return FileAccess::NotWritable;
  const int flags = ::fcntl(file.value, F_GETFL);
  const bool direct = ::fsync(file.value) == 0 &&
                      ::fcntl(file.value, F_SETFL, flags | O_DIRECT) == 0 &&
                      ::pread(file.value, block.get(), kBlock, 0) == kBlock;
  return direct ? FileAccess::Direct : FileAccess::PageCache;
}

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

}  // namespace

Machine this_machine() {
  namespace fs = std::filesystem;
  std::error_code unknown;
  Machine machine;
  machine.folder = fs::current_path(unknown).string();
  machine.program_folder = fs::read_symlink("/proc/self/exe", unknown).parent_path().string();
  machine.environment = environment();
  machine.open_library = open_library;
  machine.run = run;
  machine.room = room;
  machine.file_access = file_access;
  return machine;
}

}  // namespace athanor::cli
