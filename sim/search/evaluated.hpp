// SPDX-License-Identifier: Apache-2.0
// What a search says of one candidate.
#pragma once

#include "sim/base/name_table.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/plan.hpp"
#include "sim/search/search_space.hpp"

#include <cstdint>
#include <string>

namespace athanor {

enum class Outcome {
  Simulated,   ///< step_seconds is what the engine said
  Pruned,      ///< its lower bound is above the slowest plan kept: cannot be among the best
  DoesNotFit,  ///< needs more memory than there is
};

/// `outcome` in `tune --all`.
inline constexpr NameTable<Outcome, 3> kOutcomeNames{{{"simulated", Outcome::Simulated},
                                                      {"bounded", Outcome::Pruned},
                                                      {"does-not-fit", Outcome::DoesNotFit}}};

struct Evaluated {
  Candidate candidate;
  /// Of the space, that this stands for: all that differ from it in the updates of state in host
  /// memory alone, where one bound, or the least memory of them, rules them out together.
  std::int64_t plans = 1;
  std::int64_t index = 0;  ///< in the order of enumeration, of the first of them
  Outcome outcome = Outcome::DoesNotFit;
  TierBytes peak_bytes;
  Seconds bound_seconds = 0;  ///< 0 where it does not fit
  Seconds step_seconds = 0;   ///< 0 unless simulated
  double step_joules = 0;     ///< the same; of all GPUs, where the platform has a power model
  std::string bottleneck;     ///< of a simulated candidate
  std::string reason;         ///< why it lost; empty for the best
};

/// What counts as a difference between plans of a Pareto front. {1, 1, 0}: everything does.
struct FrontResolution {
  /// Memory is rounded up to whole multiples of these; 0: a power of two of which what fits spans
  /// at most 16.
  Bytes gpu_bytes = 0;   ///< of one GPU
  Bytes host_bytes = 0;  ///< of a node: pinned and pageable memory of all its ranks
  double time = 0.01;    ///< a plan that is faster by less than this share of its step time is not
};

}  // namespace athanor
