// SPDX-License-Identifier: Apache-2.0
// Small valid artefacts with a value in every field, and ways to break their files.
#pragma once

#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"

#include <functional>
#include <string>
#include <vector>

namespace athanor::test {

/// A double without a short decimal form, so that a lossy round trip shows.
inline constexpr double kAwkward = 0.1 + 0.2;

[[nodiscard]] Profile sample_profile();
[[nodiscard]] Platform sample_platform();
/// Sample platform with contention samples instead of shared resources, for four ranks.
[[nodiscard]] Platform sample_platform_with_contention();
[[nodiscard]] Plan sample_plan();

/// One way to break a document: `raw` (JSON text, valid or not) replaces the value at the JSON
/// pointer; an empty one removes it. The error must be about `where`.
struct Break {
  std::string pointer;
  std::string raw;
  std::string where;
};

[[nodiscard]] std::string broken(const std::string& text, const Break& edit);

/// Runs `read` on every broken form of `text`, as file "input.json". Checks that each throws an
/// InputError about "input.json:WHERE" whose message starts with it and ends with a hint.
void check_rejects(const std::string& text, const std::vector<Break>& breaks,
                   const std::function<void(const std::string& text)>& read);

/// Checks that every proper prefix in steps is rejected with an InputError.
void check_rejects_truncated(const std::string& text,
                             const std::function<void(const std::string& text)>& read);

/// The InputError that `body` throws; fails the test when it throws none.
[[nodiscard]] InputError input_error(const std::function<void()>& body);

}  // namespace athanor::test
