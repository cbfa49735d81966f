// SPDX-License-Identifier: Apache-2.0
#include "sim/search/memory_filler.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

namespace athanor {
namespace {

Candidate with_activations(Candidate candidate, const Candidate& from) {
  copy_choices<ChoiceGroup::Activations>(from, candidate);
  return candidate;
}

}  // namespace

MemoryFiller::MemoryFiller(const SearchSpace& space, const CandidateGroups::Fits& fits,
                           const std::vector<Candidate>& activations)
    : space_(space), fits_(fits), activations_(activations) {}

std::vector<Candidate> MemoryFiller::all(const Counts& counts) const {
  std::vector<Candidate> candidates;
  for (const Candidate& activation : activations_) {
    for (const Placements& placements : counts) {
      for (const Candidate& placement : placements) {
        candidates.push_back(with_activations(placement, activation));
      }
    }
  }
  return candidates;
}

std::vector<Candidate> MemoryFiller::fill(const Counts& counts) const {
  std::vector<Candidate> candidates;
  const Placements* previous = nullptr;
  const Placements* added = nullptr;
  const auto is_listed = [&](const Placements& placements) {
    return std::ranges::find(space_.leading_gpu_optimizer,
                             placements.front().leading_gpu_optimizer) !=
           space_.leading_gpu_optimizer.end();
  };
  bool fits_before = false;
  for (const Placements& placements : counts) {
    const bool fits = some_fits(placements.front());
    if (fits && (!fits_before || is_listed(placements))) {
      add(placements, candidates);
      added = &placements;
    } else if (!fits && fits_before && added != previous) {
      add(*previous, candidates);
    }
    fits_before = fits;
    previous = &placements;
  }
  if (fits_before && added != previous) add(*previous, candidates);
  if (!candidates.empty()) return candidates;
  for (const Placements& placements : counts) {
    const std::vector<Candidate> needed = least(placements);
    candidates.insert(candidates.end(), needed.begin(), needed.end());
  }
  return candidates;
}

/// Whether some choice about activations fits with `placement`.
bool MemoryFiller::some_fits(const Candidate& placement) const {
  return std::any_of(activations_.rbegin(), activations_.rend(), [&](const Candidate& activation) {
    return fits_(with_activations(placement, activation));
  });
}

/// The candidates that fit and that no other of them dominates: from few recomputed units to many.
/// More of them pay only with more parameters on the GPU than those have that recompute no more and
/// copy no more outputs.
std::vector<Candidate> MemoryFiller::undominated(const Placements& placements,
                                                 int streamed_units) const {
  std::vector<Candidate> candidates;
  for (const Candidate& activation : activations_) {
    int most = -1;
    for (const Candidate& other : candidates) {
      if (other.offload_units <= activation.offload_units) {
        most = std::max(most, other.leading_gpu_parameters);
      }
    }
    std::optional<Candidate> largest;
    for (const Candidate& placement : placements) {
      if (placement.leading_gpu_parameters <= most) continue;
      Candidate candidate = with_activations(placement, activation);
      candidate.gpu_adam_units = streamed_units;
      if (!fits_(candidate)) break;
      candidate.gpu_adam_units = 0;
      largest = candidate;
    }
    if (largest) candidates.push_back(*largest);
  }
  return candidates;
}

/// Candidates of which one needs least of each memory: the fewest parameters on the GPU, and the
/// most units that recompute with each number of outputs on the host.
std::vector<Candidate> MemoryFiller::least(const Placements& placements) const {
  std::vector<Candidate> candidates;
  for (const Candidate& activation : activations_) {
    const Candidate candidate = with_activations(placements.front(), activation);
    const auto same =
        std::ranges::find(candidates, activation.offload_units, &Candidate::offload_units);
    if (same != candidates.end())
      *same = candidate;
    else
      candidates.push_back(candidate);
  }
  return candidates;
}

/// Adds those that are best for a group's representative, and those that are best for its members
/// that stream state through the GPU, which takes some of its memory.
void MemoryFiller::add(const Placements& placements, std::vector<Candidate>& candidates) const {
  const auto first = static_cast<std::ptrdiff_t>(candidates.size());
  std::ranges::copy(undominated(placements, /*streamed_units=*/0), std::back_inserter(candidates));
  const int streamed = *std::ranges::max_element(space_.gpu_adam_units);
  if (streamed <= placements.front().leading_gpu_optimizer) return;
  for (const Candidate& candidate : undominated(placements, streamed)) {
    if (std::find(candidates.begin() + first, candidates.end(), candidate) == candidates.end()) {
      candidates.push_back(candidate);
    }
  }
}

}  // namespace athanor
