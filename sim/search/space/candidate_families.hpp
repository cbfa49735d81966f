// SPDX-License-Identifier: Apache-2.0
// The families of a space: candidates that differ only in how they use memory and the host's CPU.
#pragma once

#include "sim/search/space/memory_check.hpp"
#include "sim/search/space/memory_filler.hpp"
#include "sim/search/space/search_space.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace athanor {

/// Families of candidates in normal form. Members of one differ only in the leading units that keep
/// optimizer state and parameters on the GPU, in activations, in the prefetch depth, and in the
/// updates that tell candidates of a group apart (candidate_groups.hpp).
class CandidateFamilies {
 public:
  /// Throws InputError where `space` is not valid. `space`, whose memory is filled if it wants that
  /// and `memory` knows of it, and `architecture` outlive this object.
  CandidateFamilies(const SearchSpace& space, const Architecture& architecture, int num_gpus,
                    MemoryCheck memory);
  ~CandidateFamilies();
  CandidateFamilies(const CandidateFamilies&) = delete;
  CandidateFamilies& operator=(const CandidateFamilies&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return families_.size(); }
  /// Says between which candidates all members lie that may fit; none: no member fits. Where memory
  /// is not filled, between which all lie.
  [[nodiscard]] std::optional<FamilyReach> reach(std::size_t family) const;
  /// A representative of the family that recomputes most and keeps least on the GPU.
  [[nodiscard]] Candidate any_member(std::size_t family) const;
  /// Representatives of the family's groups in a fixed order: those that fill memory. Where none
  /// fits, those that need least of it. They need not be in the space. Those that differ only in
  /// the prefetch depth follow each other.
  [[nodiscard]] std::vector<Candidate> representatives(std::size_t family) const;
  /// Whether some member fits, or memory is unknown.
  [[nodiscard]] bool some_fits(std::size_t family) const;
  /// Calls `visit(representative, groups)` for each placement of optimizer state. `groups` counts
  /// those that have it before memory is filled.
  void for_each_placement(
      std::size_t family,
      const std::function<void(const Candidate& representative, std::int64_t groups)>& visit) const;

 private:
  class Choices;
  /// Indices of one family's choices.
  struct Family {
    std::size_t batch, sharding, chunk, pool, placement;
  };

  [[nodiscard]] const MemoryFiller& filler(const Family& family) const;
  [[nodiscard]] MemoryFiller::Counts counts(const Family& family) const;

  const SearchSpace& space_;
  MemoryCheck memory_;
  bool fills_;
  std::vector<BatchSplit> batches_;
  std::vector<std::unique_ptr<const Choices>> shardings_;
  std::vector<Family> families_;
  /// By batch and sharding.
  std::vector<std::vector<MemoryFiller>> fillers_;
};

}  // namespace athanor
