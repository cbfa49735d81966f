// SPDX-License-Identifier: Apache-2.0
#include "executor/job/run_folder.hpp"

#include "executor/io/output_folder.hpp"
#include "executor/job/run_record.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// Every file that a run writes into its folder.
constexpr std::array<std::string_view, 8> kRunFiles{
    "run.json",      "plan.json",  "profile.json",        "platform.json",
    "metrics.jsonl", "rates.json", "measured.trace.json", ".lock"};

void create_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error(path + ": cannot create: " + error.message());
}

fs::file_status status_of(const std::string& path) {
  std::error_code error;  // the status says it
  return fs::symlink_status(path, error);
}

/// Throws where writing `path` would change something outside the run folder.
void require_own_file(const std::string& path) {
  const fs::file_status status = status_of(path);
  if (!fs::exists(status)) return;
  if (fs::is_symlink(status)) {
    throw InputError(path, "is a link, which is not followed", "Remove it, or copy the file here.");
  }
  if (!fs::is_regular_file(status)) {
    throw InputError(path, "is no regular file", "Move it away, or name another run folder.");
  }
}

void require_own_folder(const std::string& path) {
  const fs::file_status status = status_of(path);
  if (!fs::exists(status) || fs::is_directory(status)) return;
  throw InputError(path,
                   fs::is_symlink(status) ? "is a link, which is not followed" : "is no folder",
                   "Make it a folder, or put the whole run folder elsewhere with --output.");
}

/// Throws where a file of the user's has a name of the run's: in a folder without a run record, as
/// that from which the plan is taken.
void require_no_foreign_file(const RunFolder& folder) {
  if (fs::exists(status_of(folder.run_record()))) return;
  for (const std::string_view name : kRunFiles) {
    const std::string path = folder.path + "/" + std::string(name);
    if (name == ".lock" || name == "metrics.jsonl" || !fs::exists(status_of(path))) continue;
    throw InputError(path, "is no run's, and the run would overwrite it",
                     "Name a new folder with --output.");
  }
}

void remove_temporary_files(const RunFolder& folder) {
  constexpr std::array kWritten{"run.json",           "plan.json",     "profile.json",
                                "platform.json",      "metrics.jsonl", "rates.json",
                                "measured.trace.json"};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path, error)) {
    const std::string name = entry.path().filename().string();
    const auto is_left_over = [&](const char* target) { return is_left_over_from(target, name); };
    if (std::ranges::any_of(kWritten, is_left_over) &&
        fs::is_regular_file(entry.symlink_status(error))) {
      ::unlink(entry.path().c_str());
    }
  }
}

void write_own_file(const RunFolder& folder, const char* name, const std::string& text) {
  const std::string path = folder.path + "/" + name;
  require_own_file(path);
  write_file_atomically(path, text);
}

/// Keeps a run.json that cannot be read under another name.
void keep_unreadable_record(const RunFolder& folder, const std::string& previous) {
  const std::string path = folder.run_record();
  if (!previous.empty() || !fs::exists(status_of(path))) return;
  std::error_code error;
  fs::rename(path, path + ".damaged", error);
  if (error) throw Error(path + ": cannot be renamed: " + error.message());
}

}  // namespace

void check_run_folder(const RunFolder& folder, bool resuming) {
  check_folder_can_be_made("--output", folder.path);
  for (const std::string_view name : kRunFiles) {
    require_own_file(folder.path + "/" + std::string(name));
  }
  require_own_folder(folder.checkpoints());
  require_own_folder(folder.retunes());
  require_own_folder(folder.tensorboard());
  check_folder_can_be_made("--output", folder.checkpoints());
  if (!resuming && fs::exists(status_of(folder.metrics()))) {
    throw InputError("--output:" + folder.path, "already holds a run",
                     "Add --resume to go on with it, or name another folder.");
  }
  if (!resuming) require_no_foreign_file(folder);
}

bool is_run_file(const std::string& name) {
  if (name == "retunes" || name == "tensorboard") return true;
  return std::ranges::find(kRunFiles, name) != kRunFiles.end();
}

std::string read_run_record(const RunFolder& folder) {
  if (!fs::is_regular_file(status_of(folder.run_record()))) return {};
  try {
    const std::string text = read_text_file(folder.run_record(), 256 * kMiB);
    return is_run_record(text) ? text : std::string();
  } catch (const InputError&) {
    return {};
  }
}

// The kernel drops the lock when the process ends, however it ends.
RunFolderLock::RunFolderLock(const RunFolder& folder) {
  create_folder(folder.path);
  const std::string path = folder.path + "/.lock";
  require_own_file(path);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor_ < 0) throw Error(path + ": cannot open: " + std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(descriptor_);
  throw InputError("--output:" + folder.path, "another process trains in this folder",
                   "Wait for it to end, or name another folder.");
}

RunFolderLock::~RunFolderLock() { ::close(descriptor_); }

void start_run_folder(const RunFolder& folder, const std::string& start, const std::string& run,
                      const Plan& plan, const Profile& profile,
                      const std::optional<Platform>& platform) {
  remove_temporary_files(folder);
  const std::string previous = read_run_record(folder);
  keep_unreadable_record(folder, previous);
  write_own_file(folder, "run.json", run_record(start, run, previous));
  write_own_file(folder, "plan.json", to_json(plan));
  write_own_file(folder, "profile.json", to_json(profile));
  if (platform) write_own_file(folder, "platform.json", to_json(*platform));
}

void write_measured_rates(const RunFolder& folder, const MeasuredRates& rates) {
  write_own_file(folder, "rates.json", to_json(rates));
}

void note_prediction(const RunFolder& folder, const RunPrediction& prediction) {
  const std::string record = read_run_record(folder);
  if (record.empty()) throw Error(folder.run_record() + ": is not there any more, or damaged");
  write_own_file(folder, "run.json", with_prediction(record, prediction));
}

void note_retune(const RunFolder& folder, const std::string& json) {
  const std::string record = read_run_record(folder);
  if (record.empty()) throw Error(folder.run_record() + ": is not there any more, or damaged");
  write_own_file(folder, "run.json", with_retune(record, json));
}

void write_measured_trace(const RunFolder& folder, const Program& program,
                          const Timeline& timeline) {
  std::ostringstream trace;
  write_trace(trace, program, timeline);
  write_own_file(folder, "measured.trace.json", trace.str());
}

}  // namespace athanor
