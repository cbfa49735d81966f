// SPDX-License-Identifier: Apache-2.0
// Findings of doctor. Each is one line of its output.
#pragma once

#include <string>
#include <vector>

namespace athanor::cli {

/// Good: nothing is missing. Costs: athanor works, with a loss. Blocks: training or tuning fails.
enum class Verdict { Good, Costs, Blocks };

struct Finding {
  std::string name;  ///< stable key, such as "locked-memory"
  Verdict verdict = Verdict::Good;
  std::string found;          ///< state of the machine
  std::string cost, way_out;  ///< empty where nothing is missing
};

using Findings = std::vector<Finding>;

}  // namespace athanor::cli
