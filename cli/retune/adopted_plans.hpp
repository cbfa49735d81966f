// SPDX-License-Identifier: Apache-2.0
// RUN/retunes: the plans to which a run has changed, each in a folder that is there whole or not at
// all, with the profile and the platform that it was made from.
#pragma once

#include "executor/job/run_folder.hpp"
#include "sim/model/plan.hpp"

#include <optional>
#include <string>

namespace athanor::cli {

struct AdoptedPlan {
  std::string folder;  ///< RUN/retunes/0001, which has plan.json, profile.json and platform.json
  std::string change;  ///< JSON object that says what was changed, when and why, and in which run
};

/// Returns the folder in which a search leaves a better plan until the run changes to it.
[[nodiscard]] std::string candidate_folder(const RunFolder& run);

/// Removes a candidate that is not taken, or that a killed process has left. Throws Error.
void remove_candidate(const RunFolder& run);

/// Makes the candidate the run's plan, in one moment that outlives a crash. `asked` is the plan of
/// --plan, `change` the JSON
/// object, whose `run` is the run's identity. Returns its number. Throws Error.
[[nodiscard]] int adopt_candidate(const RunFolder& run, const Plan& asked,
                                  const std::string& change);

/// Returns the adopted plan of that number.
[[nodiscard]] AdoptedPlan adopted_plan(const RunFolder& run, int number);

/// Returns the plan that the run of the folder has changed to last, if it was started with `asked`;
/// nothing where it never changed, or where --plan is another one by now. Plans under which a start
/// has failed are passed over: the run goes on under the one before.
[[nodiscard]] std::optional<AdoptedPlan> newest_adopted_plan(const RunFolder& run,
                                                             const Plan& asked);

/// Whether a start of this run has failed under the candidate, or a plan with the same choices.
[[nodiscard]] bool candidate_has_failed(const RunFolder& run);

/// Notes that a start under the plan begins, and that it works.
void note_start_under(const AdoptedPlan& plan);
void note_working(const AdoptedPlan& plan);

}  // namespace athanor::cli
