// SPDX-License-Identifier: Apache-2.0
// Placements and activation policies that fill memory, for one combination of the other choices.
#pragma once

#include "sim/search/space/memory_check.hpp"
#include "sim/search/space/search_space.hpp"

#include <optional>
#include <span>
#include <vector>

namespace athanor {

/// Two placements between which all members of a family lie that may fit: each has at least as many
/// units with state and with parameters on the GPU as `fewest`, at most as many as `most`, and
/// recomputes at least as many as both do. Neither is a member that fits, in general.
struct FamilyReach {
  Candidate fewest, most;
};

/// Chooses how many units keep optimizer state and parameters on the GPU, how many recompute and
/// how many outputs go to the host (SearchSpace::fill_memory). Every unit more on the GPU, and
/// every unit less that recomputes, takes memory; none of them is more work.
class MemoryFiller {
 public:
  /// Placements by leading_gpu_optimizer and then by leading_gpu_parameters, both ascending.
  using Counts = std::vector<std::vector<Candidate>>;

  /// `activations`: choices of ChoiceGroup::Activations, fewest recomputed units first. The
  /// references outlive this object.
  MemoryFiller(const SearchSpace& space, const MemoryCheck& memory,
               const std::vector<Candidate>& activations, int num_units);

  /// Returns every placement with every choice about activations.
  [[nodiscard]] std::vector<Candidate> all(const Counts& counts) const;
  /// Whether some placement fits with some choice about activations.
  [[nodiscard]] bool some_fits(const Counts& counts) const;
  /// Returns the reach of all placements with all choices about activations.
  [[nodiscard]] FamilyReach whole(const Counts& counts) const;
  /// Returns the reach of those that may fit; none: nothing fits. It looks at each number of units
  /// with state on the GPU, not at what else would fill memory with it.
  [[nodiscard]] std::optional<FamilyReach> reach(const Counts& counts) const;
  /// Returns the candidates that fill memory. If nothing fits, those that need least.
  [[nodiscard]] std::vector<Candidate> fill(const Counts& counts) const;

 private:
  using Placements = std::vector<Candidate>;

  /// The choice about activations that needs least of the GPU, beside whatever placement.
  [[nodiscard]] const Candidate& smallest_on_gpu(const Candidate& placement) const;
  [[nodiscard]] static std::span<const Candidate> smallest(const Placements& placements);
  /// Whether one of `placements` fits with some choice about activations.
  [[nodiscard]] bool some_fits(const Placements& placements) const;
  /// Whether the candidate fits with a larger gradient ring, or with none, too.
  [[nodiscard]] bool wastes_host_memory(const Candidate& candidate) const;
  [[nodiscard]] std::optional<Candidate> last_fitting(std::span<const Candidate> placements,
                                                      const Candidate& activation,
                                                      int streamed_units) const;
  [[nodiscard]] std::vector<Candidate> undominated(const Placements& placements,
                                                   int streamed_units) const;
  [[nodiscard]] std::vector<Candidate> least(const Placements& placements) const;
  void add(const Placements& placements, std::vector<Candidate>& candidates) const;

  const SearchSpace& space_;
  const MemoryCheck& memory_;
  const std::vector<Candidate>& activations_;
  /// Choices one of which fits if any does. Each recomputes the most units that its number of
  /// outputs on the host allows.
  std::vector<Candidate> least_activations_;
  /// The choice with the most outputs on the host, which needs least of the GPU, for each number of
  /// units that recompute, fewest first.
  std::vector<Candidate> most_outputs_on_host_;
  int num_units_;
  mutable std::optional<Candidate> smallest_on_gpu_;  ///< once it was asked for
};

}  // namespace athanor
