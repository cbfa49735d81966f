// SPDX-License-Identifier: Apache-2.0
// run.json: the identity of a run, how it was started last, and every start before that.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace athanor {

/// Returns a new identity: 32 hexadecimal digits.
[[nodiscard]] std::string new_run_identity();

/// Whether `text` is the JSON object of a run.json.
[[nodiscard]] bool is_run_record(const std::string& text);

/// Returns the identity in the text of a run.json; empty where there is none.
[[nodiscard]] std::string run_identity_in(const std::string& run_json);

/// Returns the text of run.json. `start` is the JSON object of this start; `previous` is the text
/// that it replaces, whose starts become its history.
[[nodiscard]] std::string run_record(const std::string& start, const std::string& identity,
                                     const std::string& previous);

/// Predictions of a step, before the run and after its first steps.
struct RunPrediction {
  std::optional<Seconds> first;                  ///< the plan's
  std::optional<Seconds> second = std::nullopt;  ///< with the rates of the steps below
  std::int64_t first_step = 0, last_step = 0;    ///< steps that were measured, counted from 1
  /// Why there is no second one.
  std::string absent = {};  // NOLINT(readability-redundant-member-init)
};

/// Returns the text of a run.json, or of the object of its start, with the prediction in it.
[[nodiscard]] std::string with_prediction(const std::string& run_json,
                                          const RunPrediction& prediction);

/// Returns the text of a run.json with one more JSON object in its list `retunes`.
[[nodiscard]] std::string with_retune(const std::string& run_json, const std::string& retune);

/// Returns the text of a start's object that says by which change of the plan it came about:
/// `changed_plan` is a JSON object.
[[nodiscard]] std::string with_changed_plan(const std::string& run_json,
                                            const std::string& changed_plan);

}  // namespace athanor
