// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/candidate_families.hpp"

#include "sim/search/space/normal_form.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace athanor {
namespace {

/// Every count from the lowest to the highest of `listed`.
std::vector<int> counts_between(const std::vector<int>& listed) {
  const auto [lowest, highest] = std::ranges::minmax(listed);
  std::vector<int> counts(static_cast<std::size_t>(highest - lowest) + 1);
  std::iota(counts.begin(), counts.end(), lowest);
  return counts;
}

template <typename T>
std::vector<T> without_repeats(const std::vector<T>& values) {
  std::vector<T> distinct;
  for (const T& value : values) {
    if (std::ranges::find(distinct, value) == distinct.end()) distinct.push_back(value);
  }
  return distinct;
}

/// Placements that differ only in the leading units whose parameters stay on the GPU, fewest first.
using ParameterCounts = MemoryFiller::Counts::value_type;
/// Placements that differ besides in the leading units whose optimizer state stays there, likewise.
using OptimizerCounts = MemoryFiller::Counts;

std::vector<OptimizerCounts> by_counts(std::vector<Candidate> placements) {
  const auto others = [](Candidate c) {
    c.leading_gpu_optimizer = c.leading_gpu_parameters = 0;
    return c;
  };
  std::ranges::sort(placements, {}, [&](const Candidate& c) {
    return std::tuple(others(c), c.leading_gpu_optimizer, c.leading_gpu_parameters);
  });
  std::vector<OptimizerCounts> series;
  for (const Candidate& placement : placements) {
    const Candidate* const last = series.empty() ? nullptr : &series.back().back().back();
    if (last == nullptr || others(*last) != others(placement)) {
      series.push_back({{placement}});
    } else if (last->leading_gpu_optimizer != placement.leading_gpu_optimizer) {
      series.back().push_back({placement});
    } else {
      series.back().back().push_back(placement);
    }
  }
  return series;
}

/// Pools of one size that differ only in the prefetch depth, which no memory depends on.
using PoolDepths = std::vector<Candidate>;

std::vector<PoolDepths> by_size(const std::vector<Candidate>& pools) {
  const auto without_depth = [](Candidate pool) {
    pool.prefetch_depth = 0;
    return pool;
  };
  std::vector<PoolDepths> sizes;
  for (const Candidate& pool : pools) {
    const auto same = std::ranges::find_if(sizes, [&](const PoolDepths& depths) {
      return without_depth(depths.front()) == without_depth(pool);
    });
    if (same == sizes.end()) {
      sizes.push_back({pool});
    } else {
      same->push_back(pool);
    }
  }
  return sizes;
}

}  // namespace

/// Choices with one sharding. Each group of choices is made distinct alone, so the product repeats
/// nothing.
class CandidateFamilies::Choices {
 public:
  /// `space` lists every count that is tried where memory is filled.
  Choices(const SearchSpace& space, const NormalForm& normal_form, int num_gpus, Sharding sharding)
      : num_units_(normal_form.num_units()), clips_(space.clips), sharding_(sharding) {
    const auto distinct = [&]<ChoiceGroup kGroup>(Candidate candidate) {
      std::vector<Candidate> forms;
      for_each_combination<kGroup>(space, candidate, [&] {
        if (is_sensible(candidate, num_gpus, normal_form.architecture())) {
          forms.push_back(normal_form.of(candidate));
        }
      });
      return without_repeats(forms);
    };
    Candidate any;
    any.sharding = sharding;
    const auto placements = distinct.operator()<ChoiceGroup::Placement>(any);
    if (placements.empty()) return;
    any = *std::ranges::min_element(placements, {}, &Candidate::leading_gpu_optimizer);
    any.snapshot = Snapshot::None;  // it says nothing of the others here, as may_have() does
    placements_ = by_counts(placements);
    chunks_ = distinct.operator()<ChoiceGroup::Chunks>(any);
    activations_ = distinct.operator()<ChoiceGroup::Activations>(any);
    std::ranges::sort(activations_, {}, [](const Candidate& c) {
      return std::tuple(c.recompute_units, c.offload_units);
    });
    pools_ = by_size(distinct.operator()<ChoiceGroup::Pools>(any));
  }

  /// Whether there are plans of these placements with this batch and pool.
  [[nodiscard]] bool may_have(const BatchSplit& batch, std::size_t pool,
                              std::size_t placement) const {
    if (batch.group > 1 && sharding_ != Sharding::Sharded) return false;  // nothing is fetched
    if (pools_[pool].front().gradient_ring == 0) return true;
    // The CPU takes gradients as they arrive, and some arrive.
    const OptimizerCounts& counts = placements_[placement];
    return batch.accumulation == 1 && !clips_ && counts.back().front().snapshot != Snapshot::Redo &&
           counts.front().front().leading_gpu_optimizer < num_units_;
  }

  [[nodiscard]] OptimizerCounts counts(const BatchSplit& batch, std::size_t chunk, std::size_t pool,
                                       std::size_t placement) const {
    OptimizerCounts counts = placements_[placement];
    const Candidate& buffers = pools_[pool].front();
    const bool stages = buffers.gradient_ring > 0;
    if (stages && counts.back().front().leading_gpu_optimizer == num_units_) counts.pop_back();
    for (ParameterCounts& parameters : counts) {
      for (Candidate& candidate : parameters) {
        candidate.batch = batch;
        copy_choices<ChoiceGroup::Chunks>(chunks_[chunk], candidate);
        copy_choices<ChoiceGroup::Pools>(buffers, candidate);
      }
    }
    return counts;
  }

  [[nodiscard]] std::size_t num_chunks() const noexcept { return chunks_.size(); }
  [[nodiscard]] std::size_t num_placements() const noexcept { return placements_.size(); }
  [[nodiscard]] const std::vector<PoolDepths>& pools() const noexcept { return pools_; }
  /// Choices about activations, fewest recomputed units first, then fewest outputs on the host.
  [[nodiscard]] const std::vector<Candidate>& activations() const noexcept { return activations_; }

 private:
  int num_units_;
  bool clips_;
  Sharding sharding_;
  std::vector<OptimizerCounts> placements_;
  std::vector<Candidate> chunks_, activations_;
  std::vector<PoolDepths> pools_;
};

CandidateFamilies::CandidateFamilies(const SearchSpace& space, const Architecture& architecture,
                                     int num_gpus, MemoryCheck memory)
    : space_(space), memory_(std::move(memory)) {
  space.validate();
  fills_ = space.fill_memory && static_cast<bool>(memory_);
  batches_ = without_repeats(space.batches);
  SearchSpace all_counts = space;
  if (fills_) all_counts.leading_gpu_optimizer = counts_between(space.leading_gpu_optimizer);
  const NormalForm normal_form(architecture, num_gpus, space.clips);
  for (const Sharding sharding : without_repeats(space.shardings)) {
    shardings_.push_back(
        std::make_unique<const Choices>(all_counts, normal_form, num_gpus, sharding));
  }
  for (std::size_t batch = 0; batch < batches_.size(); ++batch) {
    fillers_.emplace_back();
    for (std::size_t sharding = 0; sharding < shardings_.size(); ++sharding) {
      const Choices& choices = *shardings_[sharding];
      fillers_.back().emplace_back(space_, memory_, choices.activations(), normal_form.num_units());
      for (std::size_t chunk = 0; chunk < choices.num_chunks(); ++chunk) {
        for (std::size_t pool = 0; pool < choices.pools().size(); ++pool) {
          for (std::size_t placement = 0; placement < choices.num_placements(); ++placement) {
            if (!choices.may_have(batches_[batch], pool, placement)) continue;
            families_.push_back({batch, sharding, chunk, pool, placement});
          }
        }
      }
    }
  }
}

CandidateFamilies::~CandidateFamilies() = default;

const MemoryFiller& CandidateFamilies::filler(const Family& family) const {
  return fillers_[family.batch][family.sharding];
}

MemoryFiller::Counts CandidateFamilies::counts(const Family& family) const {
  return shardings_[family.sharding]->counts(batches_[family.batch], family.chunk, family.pool,
                                             family.placement);
}

std::optional<FamilyReach> CandidateFamilies::reach(std::size_t family) const {
  const MemoryFiller& of_family = filler(families_[family]);
  const OptimizerCounts all = counts(families_[family]);
  return fills_ ? of_family.reach(all) : of_family.whole(all);
}

bool CandidateFamilies::some_fits(std::size_t family) const {
  return !memory_ || filler(families_[family]).some_fits(counts(families_[family]));
}

std::vector<Candidate> CandidateFamilies::representatives(std::size_t family) const {
  const Family& of = families_[family];
  const OptimizerCounts all = counts(of);
  const std::vector<Candidate> one_depth = fills_ ? filler(of).fill(all) : filler(of).all(all);
  std::vector<Candidate> every_depth;
  for (const Candidate& candidate : one_depth) {
    for (const Candidate& pool : shardings_[of.sharding]->pools()[of.pool]) {
      every_depth.push_back(candidate);
      every_depth.back().prefetch_depth = pool.prefetch_depth;
    }
  }
  return every_depth;
}

Candidate CandidateFamilies::any_member(std::size_t family) const {
  const Family& of = families_[family];
  Candidate member = counts(of).front().front();
  copy_choices<ChoiceGroup::Activations>(shardings_[of.sharding]->activations().back(), member);
  return member;
}

void CandidateFamilies::for_each_placement(
    std::size_t family, const std::function<void(const Candidate&, std::int64_t)>& visit) const {
  const Family& of = families_[family];
  const Choices& choices = *shardings_[of.sharding];
  for (const ParameterCounts& placements : counts(of)) {
    visit(placements.front(), std::ssize(placements) * std::ssize(choices.activations()) *
                                  std::ssize(choices.pools()[of.pool]));
  }
}

}  // namespace athanor
