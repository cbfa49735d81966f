// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/memory_filler.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

namespace athanor {
namespace {

Candidate with_activations(Candidate candidate, const Candidate& from) {
  copy_choices<ChoiceGroup::Activations>(from, candidate);
  return candidate;
}

}  // namespace

MemoryFiller::MemoryFiller(const SearchSpace& space, const MemoryCheck& memory,
                           const std::vector<Candidate>& activations, int num_units)
    : space_(space), memory_(memory), activations_(activations), num_units_(num_units) {
  std::map<int, Candidate> by_outputs, by_recomputed;
  for (const Candidate& activation : activations) {
    by_outputs[activation.offload_units] = activation;
    by_recomputed[activation.recompute_units] = activation;
  }
  for (const auto& [outputs, activation] : by_outputs) least_activations_.push_back(activation);
  for (const auto& [units, activation] : by_recomputed) most_outputs_on_host_.push_back(activation);
}

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

bool MemoryFiller::some_fits(const Counts& counts) const {
  return std::ranges::any_of(
      counts, [this](const Placements& placements) { return some_fits(placements); });
}

FamilyReach MemoryFiller::whole(const Counts& counts) const {
  FamilyReach reach{counts.front().front(), counts.back().front()};
  int& fewest = reach.fewest.leading_gpu_parameters;
  int& most = reach.most.leading_gpu_parameters;
  for (const Placements& placements : counts) {  // ascending, each
    fewest = std::min(fewest, placements.front().leading_gpu_parameters);
    most = std::max(most, placements.back().leading_gpu_parameters);
  }
  reach.fewest.recompute_units = reach.most.recompute_units = activations_.front().recompute_units;
  return reach;
}

std::optional<FamilyReach> MemoryFiller::reach(const Counts& counts) const {
  const auto fits = [this](const Placements& placements) { return some_fits(placements); };
  const auto first = std::ranges::find_if(counts, fits);
  if (first == counts.end()) return std::nullopt;
  auto last = std::prev(counts.end());
  while (last != first && !fits(*last)) --last;
  FamilyReach reach{first->front(), last->front()};
  const Candidate& smallest = smallest_on_gpu(first->front());
  std::span<const Candidate> roomier = most_outputs_on_host_;
  for (auto row = first; row <= last; ++row) {
    const auto fits_gpu = [this](const Candidate& placement, const Candidate& activation) {
      return memory_.fits_gpu(with_activations(placement, activation));
    };
    const int most = reach.most.leading_gpu_parameters;
    const auto more = std::ranges::upper_bound(*row, most, {}, &Candidate::leading_gpu_parameters);
    const auto end = std::partition_point(more, row->end(), [&](const Candidate& placement) {
      return fits_gpu(placement, smallest);
    });
    if (end != more) reach.most.leading_gpu_parameters = std::prev(end)->leading_gpu_parameters;
    const auto found = std::ranges::partition_point(
        roomier, [&](const Candidate& activation) { return !fits_gpu(row->front(), activation); });
    if (found != roomier.end()) roomier = {roomier.begin(), std::next(found)};
  }
  reach.fewest.recompute_units = reach.most.recompute_units = roomier.back().recompute_units;
  return reach;
}

const Candidate& MemoryFiller::smallest_on_gpu(const Candidate& placement) const {
  if (!smallest_on_gpu_) {
    smallest_on_gpu_ = *std::ranges::min_element(activations_, {}, [&](const Candidate& choice) {
      return memory_.peak_bytes(with_activations(placement, choice)).gpu;
    });
  }
  return *smallest_on_gpu_;
}

std::vector<Candidate> MemoryFiller::fill(const Counts& counts) const {
  std::vector<bool> fits;
  for (const Placements& placements : counts) fits.push_back(some_fits(placements));
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool is_fewest = i == 0 || !fits[i - 1];
    const bool is_most = i + 1 == counts.size() || !fits[i + 1];
    const bool is_listed = std::ranges::count(space_.leading_gpu_optimizer,
                                              counts[i].front().leading_gpu_optimizer) > 0;
    if (fits[i] && (is_fewest || is_most || is_listed)) add(counts[i], candidates);
  }
  if (std::ranges::count(fits, true) > 0) return candidates;
  for (const Placements& placements : counts) {
    std::ranges::copy(least(placements), std::back_inserter(candidates));
  }
  return candidates;
}

/// Placements one of which fits if any does: the one with the fewest parameters on the GPU. Where
/// the others are in files, which may be too small too, any.
std::span<const Candidate> MemoryFiller::smallest(const Placements& placements) {
  const std::span<const Candidate> all = placements;
  return placements.front().nvme_parameters ? all : all.first(1);
}

bool MemoryFiller::some_fits(const Placements& placements) const {
  return std::ranges::any_of(smallest(placements), [&](const Candidate& placement) {
    return std::ranges::any_of(least_activations_, [&](const Candidate& activation) {
      return memory_.fits(with_activations(placement, activation));
    });
  });
}

bool MemoryFiller::wastes_host_memory(const Candidate& candidate) const {
  if (candidate.gradient_ring == 0) return false;
  return std::ranges::any_of(space_.gradient_rings, [&](int ring) {
    if (ring > 0 && ring <= candidate.gradient_ring) return false;
    Candidate larger = candidate;
    larger.gradient_ring = ring;
    return memory_.fits(larger);
  });
}

/// The last of `placements` that fits with `activation`: each takes more of the GPU than the one
/// before. In files parameters take room that they do not need on the GPU, so there the first ones
/// may not fit.
std::optional<Candidate> MemoryFiller::last_fitting(std::span<const Candidate> placements,
                                                    const Candidate& activation,
                                                    int streamed_units) const {
  const auto candidate_of = [&](const Candidate& placement) {
    Candidate candidate = with_activations(placement, activation);
    candidate.gpu_adam_units = streamed_units;
    return candidate;
  };
  const auto fits = [&](const Candidate& placement) {
    return memory_.fits(candidate_of(placement));
  };
  const auto in_files = std::ranges::find(placements, false, &Candidate::nvme_parameters);
  const auto first = std::find_if(placements.begin(), in_files, fits);
  const auto end = std::partition_point(first, placements.end(), fits);
  if (end == first) return std::nullopt;
  return candidate_of(*std::prev(end));
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
    const auto more =
        std::ranges::upper_bound(placements, most, {}, &Candidate::leading_gpu_parameters);
    const auto largest = last_fitting({more, placements.end()}, activation, streamed_units);
    if (largest) candidates.push_back(*largest);
  }
  std::erase_if(candidates, [this](const Candidate& c) { return wastes_host_memory(c); });
  for (Candidate& candidate : candidates) candidate.gpu_adam_units = 0;
  return candidates;
}

/// Candidates of which one needs least of each memory.
std::vector<Candidate> MemoryFiller::least(const Placements& placements) const {
  std::vector<Candidate> candidates;
  for (const Candidate& placement : smallest(placements)) {
    for (const Candidate& activation : least_activations_) {
      candidates.push_back(with_activations(placement, activation));
    }
  }
  return candidates;
}

/// Adds those that are best for a group's representative, and those that are best for its members
/// that stream state through the GPU, which takes some of its memory.
void MemoryFiller::add(const Placements& placements, std::vector<Candidate>& candidates) const {
  const auto first = static_cast<std::ptrdiff_t>(candidates.size());
  std::ranges::copy(undominated(placements, /*streamed_units=*/0), std::back_inserter(candidates));
  const Candidate& any = placements.front();
  const int in_memory =
      num_units_ - std::max(any.trailing_gpu_optimizer, any.trailing_nvme_optimizer);
  const int streamed = std::min(std::ranges::max(space_.gpu_adam_units), in_memory);
  if (streamed <= any.leading_gpu_optimizer) return;
  for (const Candidate& candidate : undominated(placements, streamed)) {
    if (std::find(candidates.begin() + first, candidates.end(), candidate) == candidates.end()) {
      candidates.push_back(candidate);
    }
  }
}

}  // namespace athanor
