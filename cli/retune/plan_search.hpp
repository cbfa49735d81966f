// SPDX-License-Identifier: Apache-2.0
// The search for a better plan beside a run, with the rates that the run has measured.
#pragma once

#include "cli/retune/background_program.hpp"
#include "executor/job/run_folder.hpp"
#include "sim/model/memory.hpp"

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace athanor::cli {

/// Result of a search. Step times are by the rates of the run, of both plans alike.
struct FoundPlan {
  Seconds current = 0, best = 0;
  bool is_better = false;            ///< by more than the margin; it is in the folder then
  std::vector<std::string> changes;  ///< "sharding: replicated -> sharded"
  std::vector<std::string>
      moved_rates;  ///< "adam on cpu-adam takes 3.2 times as long as predicted"
  std::int64_t first_step = 0, last_step = 0;  ///< steps that were measured
};

/// Parses what `athanor-sim retune --json` prints; nothing where it is no such answer.
[[nodiscard]] std::optional<FoundPlan> parse_found_plan(const std::string& text);

/// `athanor-sim retune` in a process of its own. Only rank 0 has one.
class PlanSearch {
 public:
  struct Request {
    RunFolder run;
    std::string output;   ///< folder for a better plan
    double margin = 0;    ///< share of the step by which it has to be better
    MemoryLimits within;  ///< memory of the run; nvme 0: no NVMe
  };
  /// Starts it. Throws Error where the program is missing.
  PlanSearch(const Request& request, Priority priority);

  struct Answer {
    std::optional<FoundPlan> found;
    std::string failure;  ///< why there is none
  };
  /// Returns the answer once it is there; never waits.
  [[nodiscard]] std::optional<Answer> poll();

 private:
  BackgroundProgram program_;
};

}  // namespace athanor::cli
