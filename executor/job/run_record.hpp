// SPDX-License-Identifier: Apache-2.0
// run.json: the identity of a run, how it was started last, and every start before that.
#pragma once

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

}  // namespace athanor
