// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/run_memory.hpp"

#include "executor/memory/shared_memory.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "athanor-";

/// Takes "athanor-RUN-RANK" apart.
std::optional<RankMemory> parse_name(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::size_t dash = name.rfind('-');
  if (dash < kPrefix.size() || dash + 1 == name.size()) return std::nullopt;
  RankMemory memory;
  memory.run = name.substr(kPrefix.size(), dash - kPrefix.size());
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + dash + 1, end, memory.rank);
  const bool is_run = !memory.run.empty() && std::ranges::all_of(memory.run, [](char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
  });
  if (!is_run || error != std::errc() || stop != end || memory.rank < 0) return std::nullopt;
  return memory;
}

bool is_own_file(const std::string& path, Bytes& bytes) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return false;
  bytes = status.st_size;
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

/// Runs of which a living process holds some memory.
std::set<std::string> living_runs(const std::vector<RankMemory>& all) {
  std::set<std::string> living;
  Seconds patience = kEndOfProcess;
  for (const RankMemory& memory : all) {
    if (!is_held(memory.path, patience)) continue;
    living.insert(memory.run);
    patience = 0;  // whoever was ending has ended
  }
  return living;
}

RunMemory read_ranks(const std::vector<RankMemory>& files, const std::string& run) {
  RunMemory found;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const SnapshotSummary summary = read_snapshot_summary(files[i].path);
    if (summary.run != run || summary.rank != files[i].rank) {
      throw Error(fmt::format("{} says that it is of rank {} of run {}", files[i].path,
                              summary.rank, summary.run));
    }
    if (i == 0) {
      found = {.steps = summary.steps,
               .world_size = summary.world_size,
               .layouts = {},
               .lost = {},
               .text = summary.text};
    }
    const bool is_next = summary.rank == static_cast<int>(i);
    if (!is_next || summary.world_size != found.world_size) {
      throw Error(fmt::format("the memory of rank {} is missing", i));
    }
    found.steps = std::min(found.steps, summary.steps);
    found.layouts.push_back(summary.layout);
  }
  if (std::ssize(files) != found.world_size) {
    throw Error(fmt::format("it is there for {} of {} ranks only", files.size(), found.world_size));
  }
  return found;
}

}  // namespace

std::string memory_path(const std::string& folder, const std::string& run, int rank) {
  return fmt::format("{}/{}{}-{}", folder, kPrefix, run, rank);
}

void remove_rank_memory(const std::string& path) {
  Bytes bytes = 0;
  if (!is_own_file(path, bytes)) return;
  if (is_held(path, kEndOfProcess)) throw Error(path + " is in use by a living process");
  ::unlink(path.c_str());
}

std::vector<RankMemory> list_rank_memory(const std::string& folder, const std::string& run) {
  std::vector<RankMemory> all;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::optional<RankMemory> memory = parse_name(entry.path().filename().string());
    if (!memory || (!run.empty() && memory->run != run)) continue;
    memory->path = entry.path().string();
    if (is_own_file(memory->path, memory->bytes)) all.push_back(std::move(*memory));
  }
  std::ranges::sort(all, {}, [](const RankMemory& m) { return std::tie(m.run, m.rank); });
  return all;
}

FoundMemory find_run_memory(const std::string& folder, const std::string& run) {
  if (run.empty()) return {};
  const std::vector<RankMemory> files = list_rank_memory(folder, run);
  if (files.empty()) return {};
  try {
    for (const RankMemory& file : files) {
      if (!is_held(file.path, kEndOfProcess)) continue;
      return {std::nullopt, file.path + " is in use by a living process", true};
    }
    return {read_ranks(files, run), "", false};
  } catch (const Error& error) {
    return {std::nullopt, error.what(), false};
  }
}

std::vector<RankMemory> remove_run_memory(const std::string& folder, const std::string& run,
                                          std::vector<RankMemory>& held) {
  std::vector<RankMemory> all = list_rank_memory(folder, run);
  const std::set<std::string> living = living_runs(all);
  std::vector<RankMemory> removed;
  for (RankMemory& memory : all) {
    if (living.contains(memory.run)) {
      held.push_back(std::move(memory));
    } else if (::unlink(memory.path.c_str()) == 0) {
      removed.push_back(std::move(memory));
    }
  }
  return removed;
}

}  // namespace athanor
