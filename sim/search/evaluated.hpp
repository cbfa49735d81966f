// SPDX-License-Identifier: Apache-2.0
// Evaluated: the outcome of a search for one candidate.
#pragma once

#include "sim/base/name_table.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/plan.hpp"
#include "sim/search/space/search_space.hpp"

#include <cstdint>
#include <string>

namespace athanor {

enum class Outcome {
  Simulated,   ///< step_seconds is what the engine said
  Pruned,      ///< its lower bound is above the cutoff: it cannot be among the best
  DoesNotFit,  ///< needs more memory than there is
};

/// `outcome` in `tune --all`.
inline constexpr NameTable<Outcome, 3> kOutcomeNames{{{"simulated", Outcome::Simulated},
                                                      {"pruned", Outcome::Pruned},
                                                      {"does-not-fit", Outcome::DoesNotFit}}};

struct Evaluated {
  Candidate candidate;
  /// Number of plans that this entry represents. More than one when plans that differ only in how
  /// host-resident optimizer state is updated were ruled out together.
  std::int64_t plans = 1;
  std::int64_t index = 0;  ///< the first plan's place in the enumeration
  Outcome outcome = Outcome::DoesNotFit;
  TierBytes peak_bytes;
  Seconds bound_seconds = 0;  ///< 0 where it does not fit
  Seconds step_seconds = 0;   ///< 0 unless simulated
  double step_joules = 0;     ///< all GPUs'; 0 unless simulated with a power model
  std::string bottleneck;     ///< empty unless simulated
};

/// Differences that count between plans of a Pareto front. {1, 1, 0}: all do.
struct FrontResolution {
  /// Granularity of the memory axes, to which memory is rounded up. 0 chooses the power of two that
  /// divides the range of what fits into at most 16 steps.
  Bytes gpu_bytes = 0;   ///< granularity of one GPU's memory
  Bytes host_bytes = 0;  ///< a node's: pinned and pageable, for all its ranks
  double time = 0.01;    ///< step times closer than this share count as equal
};

}  // namespace athanor
