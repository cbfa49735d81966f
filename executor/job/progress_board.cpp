// SPDX-License-Identifier: Apache-2.0
#include "executor/job/progress_board.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

namespace athanor {

ProgressBoard::ProgressBoard(const std::string& path, int rank, int world_size)
    : rank_(rank),
      world_size_(world_size),
      bytes_(static_cast<std::size_t>(world_size) * sizeof(RankRecord)) {
  const auto fail = [&](const char* what) {
    throw Error(fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno)));
  };
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) fail("open");
  void* memory = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(bytes_)) == 0) {
    memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  if (memory == MAP_FAILED) fail("map");
  records_ = static_cast<RankRecord*>(memory);
  new (&own()) RankRecord;
  own().heartbeat_ns = monotonic_ns();
  own().process = ::getpid();
}

ProgressBoard::~ProgressBoard() { ::munmap(records_, bytes_); }

std::int64_t monotonic_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
  return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec;
}

}  // namespace athanor
