// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/background_checkpoint.hpp"

#include "executor/backend/steady_clock.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// Time between two looks for the other ranks' files.
constexpr auto kLook = std::chrono::milliseconds(10);
constexpr std::size_t kDigits = 16;  ///< digits of a checksum; a line end follows

fs::path done_file(const CheckpointPart& part, int rank) {
  return fs::path(partial_path(part.folder, part.state.step)) /
         done_file_name(rank, part.state.world_size);
}

void say_done(const CheckpointPart& part, std::uint64_t checksum) {
  const fs::path path = done_file(part, part.rank);
  std::ofstream file(path, std::ios::binary);
  file << fmt::format("{:0{}x}\n", checksum, kDigits) << std::flush;
  if (!file) throw Error(path.string() + ": cannot be written");
}

/// Returns a rank's checksum once its file says it whole.
std::optional<std::uint64_t> read_done(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() <= kDigits || text[kDigits] != '\n') return std::nullopt;
  return std::stoull(text.substr(0, kDigits), nullptr, 16);
}

std::uint64_t await_done(const fs::path& path, const std::stop_token& stop) {
  for (;;) {
    if (const auto checksum = read_done(path)) return *checksum;
    if (stop.stop_requested()) throw Error(path.string() + ": was given up");
    std::this_thread::sleep_for(kLook);
  }
}

/// Completes the checkpoint when all ranks have written their files.
void complete_when_all_are_done(const CheckpointPart& part, std::uint64_t own_checksum,
                                const std::stop_token& stop) {
  std::vector<std::uint64_t> checksums{own_checksum};
  for (int rank = 1; rank < part.state.world_size; ++rank) {
    checksums.push_back(await_done(done_file(part, rank), stop));
  }
  for (int rank = 1; rank < part.state.world_size; ++rank) fs::remove(done_file(part, rank));
  complete_checkpoint(part, checksums);
}

Seconds write(const CheckpointPart& part, const std::stop_token& stop) {
  const Seconds start = steady_seconds();
  const std::uint64_t checksum = write_part(part, stop);
  if (part.rank == 0) {
    complete_when_all_are_done(part, checksum, stop);
  } else {
    say_done(part, checksum);
  }
  return steady_seconds() - start;
}

}  // namespace

BackgroundCheckpoint::BackgroundCheckpoint(CheckpointPart part)
    : result_(std::async(std::launch::async, [part = std::move(part), stop = stop_.get_token()] {
        return write(part, stop);
      })) {}

BackgroundCheckpoint::~BackgroundCheckpoint() {
  stop_.request_stop();
  if (result_.valid()) result_.wait();
}

bool BackgroundCheckpoint::is_done() const {
  return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Seconds BackgroundCheckpoint::wait() { return result_.get(); }

}  // namespace athanor
