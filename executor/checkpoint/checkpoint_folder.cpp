// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_folder.hpp"

#include "executor/checkpoint/checkpoint_finder.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <ranges>
#include <string_view>
#include <system_error>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial";  ///< is being written
constexpr std::string_view kDoomed = ".old";       ///< is being deleted

bool is_own_file(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return fs::is_regular_file(entry.symlink_status()) &&
         (is_rank_file_name(name) || is_done_file_name(name) || name == kStateFile ||
          is_left_over_from(kStateFile, name));
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    entries.push_back(entry);
  }
  if (error) throw Error(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  return entries;
}

/// Deletes the files of a checkpoint, and the folder unless it holds something else. Returns
/// whether it is gone.
bool remove_own_files(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (is_own_file(entry) && !fs::remove(entry.path(), error) && error) {
      throw Error(fmt::format("{}: cannot be deleted: {}", entry.path().string(), error.message()));
    }
  }
  return ::rmdir(folder.c_str()) == 0;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return;
  throw Error(
      fmt::format("{}: cannot be renamed to {}: {}", from.string(), to.string(), error.message()));
}

/// Name of the checkpoint of which `name` is a leftover, such as ".step-00000010.old", or nothing.
std::string checkpoint_of_leftover(const std::string& name) {
  for (const std::string_view ending : {kPartial, kDoomed}) {
    if (!name.starts_with('.') || !name.ends_with(ending)) continue;
    const std::string inner = name.substr(1, name.size() - 1 - ending.size());
    if (parse_checkpoint_name(inner)) return inner;
  }
  return {};
}

/// Deletes a checkpoint. A user's files that lie in it stay, under its name.
void remove_doomed(const fs::path& doomed, const fs::path& name) {
  if (!remove_own_files(doomed) && !fs::exists(name)) rename_or_throw(doomed, name);
}

}  // namespace

std::string partial_name(const std::string& name) { return fmt::format(".{}{}", name, kPartial); }

void make_checkpoints_folder(const std::string& checkpoints) {
  std::error_code error;
  fs::create_directories(checkpoints, error);
  if (error) {
    throw Error(fmt::format("{}: cannot be created: {}", checkpoints, error.message()));
  }
  if (fs::is_symlink(fs::symlink_status(checkpoints, error))) {
    throw Error(checkpoints + ": is a link, which is not followed. Make it a folder.");
  }
}

std::vector<std::string> remove_leftovers(const std::string& checkpoints) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : entries_of(checkpoints)) {
    const std::string name = checkpoint_of_leftover(entry.path().filename().string());
    if (name.empty() || !fs::is_directory(entry.symlink_status())) continue;
    remove_doomed(entry.path(), fs::path(checkpoints) / name);
    if (!fs::exists(entry.path())) names.push_back(name);
  }
  return names;
}

void remove_older(const std::string& checkpoints, const std::string& run, int keep_last) {
  const std::vector<FoundCheckpoint> oldest_first = list_checkpoints(checkpoints);
  int kept = 0;
  for (const FoundCheckpoint& found : std::views::reverse(oldest_first)) {
    // One that names no run may be another's.
    if (!is_whole_of(found, run) || found.state->run.empty()) continue;
    if (++kept <= keep_last) continue;
    const fs::path doomed =
        fs::path(checkpoints) / fmt::format(".{}{}", checkpoint_name(found.step), kDoomed);
    rename_or_throw(found.folder, doomed);
    remove_doomed(doomed, found.folder);
  }
}

std::string set_aside(const std::string& folder) {
  std::error_code error;
  std::string name = folder + ".aside";
  for (int i = 2; fs::exists(fs::symlink_status(name, error)); ++i) {
    name = fmt::format("{}.aside-{}", folder, i);
  }
  rename_or_throw(folder, name);
  return name;
}

}  // namespace athanor
