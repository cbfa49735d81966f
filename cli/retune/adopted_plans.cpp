// SPDX-License-Identifier: Apache-2.0
#include "cli/retune/adopted_plans.hpp"

#include "executor/io/output_folder.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <system_error>
#include <vector>

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAsked = "asked-plan.json";
constexpr const char* kChange = "change.json";
constexpr const char* kStarted = "started";
constexpr const char* kWorks = "works";

std::string folder_of(const RunFolder& run, int number) {
  return fmt::format("{}/{:04}", run.retunes(), number);
}

/// Returns the number of an adopted plan's folder; 0: the name is none.
int number_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  int number = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() ? number : 0;
}

/// Returns the numbers of the adopted plans, the newest first. Links are not followed.
std::vector<int> numbers_in(const RunFolder& run) {
  std::vector<int> numbers;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(run.retunes(), error))) return numbers;
  for (const fs::directory_entry& entry : fs::directory_iterator(run.retunes(), error)) {
    const int number = number_of(entry.path());
    if (number > 0 && fs::is_directory(entry.symlink_status(error))) numbers.push_back(number);
  }
  std::ranges::sort(numbers, std::greater<>());
  return numbers;
}

/// Returns the plan in the folder without its prediction, which each search makes anew.
std::string choices_in(const std::string& folder) {
  Plan plan = read_plan(folder + "/plan.json");
  plan.prediction.reset();
  return to_json(plan);
}

/// Whether a start under the plan came to nothing.
bool has_failed(const AdoptedPlan& plan) {
  const fs::path folder = plan.folder;
  return fs::exists(folder / kStarted) && !fs::exists(folder / kWorks);
}

void mark(const AdoptedPlan& plan, const char* name) {
  const std::string path = plan.folder + "/" + name;
  if (!fs::exists(path)) write_file_atomically(path, "");
}

}  // namespace

std::string candidate_folder(const RunFolder& run) { return run.retunes() + "/candidate"; }

void remove_candidate(const RunFolder& run) {
  std::error_code error;
  fs::remove_all(candidate_folder(run), error);
  if (error) throw Error(candidate_folder(run) + ": cannot be removed: " + error.message());
}

int adopt_candidate(const RunFolder& run, const Plan& asked, const std::string& change) {
  const std::string candidate = candidate_folder(run);
  write_file_atomically(candidate + "/" + kAsked, to_json(asked));
  write_file_atomically(candidate + "/" + kChange, change);
  sync_folder(candidate);
  const std::vector<int> numbers = numbers_in(run);
  const int number = numbers.empty() ? 1 : numbers.front() + 1;
  std::error_code error;
  fs::rename(candidate, folder_of(run, number), error);
  if (error) throw Error(candidate + ": cannot be renamed: " + error.message());
  sync_folder(run.retunes());
  return number;
}

AdoptedPlan adopted_plan(const RunFolder& run, int number) {
  const std::string folder = folder_of(run, number);
  return {folder, read_text_file(folder + "/" + kChange)};
}

std::optional<AdoptedPlan> newest_adopted_plan(const RunFolder& run, const Plan& asked) {
  const std::string identity = run_identity_in(read_run_record(run));
  for (const int number : numbers_in(run)) {
    AdoptedPlan plan = adopted_plan(run, number);
    if (run_identity_in(plan.change) != identity) return std::nullopt;
    if (read_text_file(plan.folder + "/" + kAsked) != to_json(asked)) return std::nullopt;
    if (!has_failed(plan)) return plan;
  }
  return std::nullopt;
}

bool candidate_has_failed(const RunFolder& run) {
  const std::string candidate = choices_in(candidate_folder(run));
  return std::ranges::any_of(numbers_in(run), [&](int number) {
    const AdoptedPlan plan = adopted_plan(run, number);
    return has_failed(plan) && choices_in(plan.folder) == candidate;
  });
}

void note_start_under(const AdoptedPlan& plan) { mark(plan, kStarted); }

void note_working(const AdoptedPlan& plan) { mark(plan, kWorks); }

}  // namespace athanor::cli
