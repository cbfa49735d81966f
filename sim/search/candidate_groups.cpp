// SPDX-License-Identifier: Apache-2.0
#include "sim/search/candidate_groups.hpp"

#include "sim/model/cache_slots.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/search/memory_filler.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

namespace athanor {
namespace {

/// Turns leading and trailing counts that cover all `num_units` into all leading.
void normalise_cover(int& leading, int& trailing, int num_units) {
  leading = std::min(leading, num_units);
  trailing = std::min(trailing, num_units);
  if (leading + trailing < num_units) return;
  leading = num_units;
  trailing = 0;
}

void normalise_placement(Candidate& c, int num_units) {
  c.leading_gpu_parameters = std::max(c.leading_gpu_parameters, c.leading_gpu_optimizer);
  c.trailing_gpu_parameters = std::max(c.trailing_gpu_parameters, c.trailing_gpu_optimizer);
  if (c.sharding != Sharding::Sharded) c.leading_gpu_parameters = num_units;
  normalise_cover(c.leading_gpu_optimizer, c.trailing_gpu_optimizer, num_units);
  normalise_cover(c.leading_gpu_parameters, c.trailing_gpu_parameters, num_units);
  // Counted from the end, so units on the GPU are among them.
  c.trailing_nvme_optimizer =
      c.trailing_nvme_optimizer <= c.trailing_gpu_optimizer
          ? 0
          : std::min(c.trailing_nvme_optimizer, num_units - c.leading_gpu_optimizer);
  const int first_in_file =
      std::max(c.leading_gpu_parameters, num_units - c.trailing_nvme_optimizer);
  if (first_in_file >= num_units - c.trailing_gpu_parameters) c.nvme_parameters = false;
}

/// normal_form() for one architecture.
class NormalForm {
 public:
  NormalForm(const Architecture& architecture, int num_gpus, bool clips)
      : architecture_(architecture),
        clips_(clips),
        has_attention_(has_attention_units(architecture)),
        num_units_(static_cast<int>(architecture.units.size())),
        class_size_(largest_class_size(architecture)),
        cut_(num_gpus * kParameterAlignment),
        largest_chunk_(round_up(largest_unit_elements(architecture), cut_)) {}

  [[nodiscard]] const Architecture& architecture() const noexcept { return architecture_; }
  [[nodiscard]] int num_units() const noexcept { return num_units_; }

  [[nodiscard]] Candidate of(const Candidate& candidate) const {
    Candidate c = candidate;
    c.chunk_elements = std::min(round_up(c.chunk_elements, cut_), largest_chunk_);
    c.recompute_units = std::min(c.recompute_units, num_units_ - 1);
    c.offload_units =
        std::clamp(std::min(c.recompute_units - 1, num_units_ - 3), 0, c.offload_units);
    c.gradient_buffers = std::min(c.gradient_buffers, class_size_);
    normalise_placement(c, num_units_);
    if (c.sharding != Sharding::Sharded || !has_attention_ ||
        c.leading_gpu_optimizer == num_units_) {
      c.attention_on_gpu = false;
    }
    normalise_updates(c);
    if (clips_ || c.snapshot == Snapshot::Redo || c.batch.accumulation > 1 ||
        c.leading_gpu_optimizer == num_units_) {
      c.gradient_ring = 0;
    }
    if (c.sharding == Sharding::Sharded) {
      c.cache_slots = std::max(std::min(c.cache_slots, class_size_),
                               least_cache_slots(architecture_, c.prefetch_depth));
    } else {
      c.cache_slots = 1;
      c.prefetch_depth = 0;
    }
    return c;
  }

 private:
  void normalise_updates(Candidate& c) const {
    const int in_memory =
        num_units_ - std::max(c.trailing_gpu_optimizer, c.trailing_nvme_optimizer);
    c.gpu_adam_units = std::min(c.gpu_adam_units, in_memory);
    if (c.gpu_adam_units <= c.leading_gpu_optimizer) c.gpu_adam_units = 0;
    const int first_on_cpu = std::max(c.leading_gpu_optimizer, c.gpu_adam_units);
    c.late_updates = std::min(c.late_updates, num_units_ - c.trailing_gpu_optimizer);
    if (c.late_updates <= first_on_cpu) c.late_updates = 0;
    if (std::max(first_on_cpu, c.late_updates) >= in_memory) c.speculate = false;
    if (c.snapshot == Snapshot::Redo) {  // all updates are late
      c.late_updates = 0;
      c.speculate = false;
    }
    // The norm of gradients that were added up on the host is summed there.
    const bool sums = clips_ && c.batch.accumulation > 1;
    const bool updates = first_on_cpu < num_units_ - c.trailing_gpu_optimizer;
    if (c.leading_gpu_optimizer == num_units_ || !(updates || sums)) c.adam_threads = 1;
  }

  const Architecture& architecture_;
  bool clips_, has_attention_;
  int num_units_, class_size_;
  std::int64_t cut_, largest_chunk_;
};

/// Calls `visit` for each combination of values of the choices of one group, assigned to
/// `candidate`. The group's first choice varies slowest.
template <ChoiceGroup kGroup, std::size_t kIndex = 0, typename Visit>
void for_each_combination(const SearchSpace& space, Candidate& candidate, const Visit& visit) {
  if constexpr (kIndex == std::tuple_size_v<decltype(kChoices)>) {
    visit();
  } else if constexpr (std::get<kIndex>(kChoices).group != kGroup) {
    for_each_combination<kGroup, kIndex + 1>(space, candidate, visit);
  } else {
    constexpr auto kChoice = std::get<kIndex>(kChoices);
    for (const auto& value : space.*kChoice.values) {
      candidate.*kChoice.value = value;
      for_each_combination<kGroup, kIndex + 1>(space, candidate, visit);
    }
  }
}

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

/// Combinations of choices with one sharding. Each group of choices is made distinct alone, and no
/// two candidates of their product are the same.
class Choices {
 public:
  /// `space` lists every count that is tried where memory is filled.
  Choices(const SearchSpace& space, const NormalForm& normal_form, int num_gpus, Sharding sharding)
      : space_(space), normal_form_(normal_form), num_gpus_(num_gpus), sharding_(sharding) {
    Candidate any;
    any.sharding = sharding;
    const std::vector<Candidate> placements = distinct<ChoiceGroup::Placement>(any);
    if (placements.empty()) return;
    any = *std::ranges::min_element(placements, {}, &Candidate::leading_gpu_optimizer);
    any.snapshot = Snapshot::None;  // it says nothing of the others here, as any_of() does
    placements_ = by_counts(placements);
    chunks_ = distinct<ChoiceGroup::Chunks>(any);
    activations_ = distinct<ChoiceGroup::Activations>(any);
    std::ranges::sort(activations_, {}, [](const Candidate& c) {
      return std::tuple(c.recompute_units, c.offload_units);
    });
    pools_ = distinct<ChoiceGroup::Pools>(any);
  }

  /// Calls `visit(counts)` with the placements of each combination of the other choices, until it
  /// returns true. Returns whether it did.
  template <typename Visit>
  [[nodiscard]] bool any_of(const BatchSplit& batch, const Visit& visit) const {
    for (const Candidate& chunk : chunks_) {
      for (const Candidate& pool : pools_) {
        if (pool.gradient_ring > 0 && !may_stage(batch)) continue;
        for (OptimizerCounts counts : placements_) {
          if (pool.gradient_ring > 0) drop_without_ring(counts);
          if (counts.empty()) continue;
          for (ParameterCounts& parameters : counts) {
            for (Candidate& placement : parameters) {
              placement.batch = batch;
              copy_choices<ChoiceGroup::Chunks>(chunk, placement);
              copy_choices<ChoiceGroup::Pools>(pool, placement);
            }
          }
          if (visit(counts)) return true;
        }
      }
    }
    return false;
  }

  /// Whether units are fetched, so that groups of micro-batches pay (is_sensible).
  [[nodiscard]] bool fetches() const noexcept { return sharding_ == Sharding::Sharded; }
  /// Choices about activations, fewest recomputed units first, then fewest outputs on the host.
  [[nodiscard]] const std::vector<Candidate>& activations() const { return activations_; }

 private:
  /// Drops placements under which no gradient goes to the host, or all have to stay there.
  void drop_without_ring(OptimizerCounts& counts) const {
    if (counts.back().front().snapshot == Snapshot::Redo) return counts.clear();
    if (counts.back().front().leading_gpu_optimizer == normal_form_.num_units()) counts.pop_back();
  }
  /// Whether the CPU may take gradients as they arrive.
  [[nodiscard]] bool may_stage(const BatchSplit& batch) const noexcept {
    return batch.accumulation == 1 && !space_.clips;
  }
  /// Distinct normal forms of `candidate` with every sensible combination of one group.
  template <ChoiceGroup kGroup>
  [[nodiscard]] std::vector<Candidate> distinct(Candidate candidate) const {
    std::vector<Candidate> forms;
    for_each_combination<kGroup>(space_, candidate, [&] {
      if (is_sensible(candidate, num_gpus_, normal_form_.architecture())) {
        forms.push_back(normal_form_.of(candidate));
      }
    });
    return without_repeats(forms);
  }

  const SearchSpace& space_;
  const NormalForm& normal_form_;
  int num_gpus_;
  Sharding sharding_;
  std::vector<OptimizerCounts> placements_;
  std::vector<Candidate> chunks_, activations_, pools_;
};

bool shares_chunks(const Candidate& a, const Candidate& b) {
  return a.batch == b.batch && a.sharding == b.sharding && a.chunk_elements == b.chunk_elements;
}

/// Whether two members of a group belong to the same set of that level.
bool agree(const Candidate& a, const Candidate& b, SearchLevel level) {
  if (level == SearchLevel::Leaf) return a == b;
  return level == SearchLevel::Group ||
         (a.adam_threads == b.adam_threads && a.gpu_adam_units == b.gpu_adam_units);
}

}  // namespace

Candidate normal_form(const Candidate& candidate, const Architecture& architecture, int num_gpus,
                      bool clips) {
  return NormalForm(architecture, num_gpus, clips).of(candidate);
}

CandidateGroups::CandidateGroups(const SearchSpace& space, const Architecture& architecture,
                                 int num_gpus, Fits fits)
    : space_(space), architecture_(architecture), num_gpus_(num_gpus), fits_(std::move(fits)) {
  space.validate();
}

template <typename Visit>
bool CandidateGroups::any_of(bool fills, const Visit& visit) const {
  const NormalForm normal_form(architecture_, num_gpus_, space_.clips);
  SearchSpace all_counts = space_;
  if (fills) all_counts.leading_gpu_optimizer = counts_between(space_.leading_gpu_optimizer);
  std::vector<Choices> choices;
  for (const Sharding sharding : without_repeats(space_.shardings)) {
    choices.emplace_back(all_counts, normal_form, num_gpus_, sharding);
  }
  for (const BatchSplit& batch : without_repeats(space_.batches)) {
    for (const Choices& of_sharding : choices) {
      if (batch.group > 1 && !of_sharding.fetches()) continue;
      const MemoryFiller filler(space_, fits_, of_sharding.activations(), normal_form.num_units());
      const auto visit_counts = [&](const OptimizerCounts& counts) {
        return visit(filler, counts);
      };
      if (of_sharding.any_of(batch, visit_counts)) return true;
    }
  }
  return false;
}

/// Memory does not depend on the prefetch depth, so what fills it is found once for all depths.
void CandidateGroups::for_each(const std::function<void(const Candidate&)>& visit) const {
  const bool fills = space_.fill_memory && fits_;
  std::map<Candidate, std::vector<Candidate>> known;  // by the first placement, of one chunk size
  static_cast<void>(any_of(fills, [&](const MemoryFiller& filler, const OptimizerCounts& counts) {
    Candidate first = counts.front().front();
    const int depth = std::exchange(first.prefetch_depth, 0);
    if (!known.empty() && !shares_chunks(known.begin()->first, first)) known.clear();
    const auto [entry, is_new] = known.try_emplace(first);
    if (is_new) entry->second = fills ? filler.fill(counts) : filler.all(counts);
    for (Candidate candidate : entry->second) {
      candidate.prefetch_depth = depth;
      visit(candidate);
    }
    return false;
  }));
}

bool CandidateGroups::some_fits() const {
  return any_of(space_.fill_memory, [](const MemoryFiller& filler, const OptimizerCounts& counts) {
    return filler.some_fits(counts);
  });
}

bool CandidateGroups::is_in_order(const Candidate& updates) noexcept {
  return updates.gpu_adam_units == 0 && updates.late_updates == 0;
}

Candidate CandidateGroups::with_updates(Candidate representative, const Candidate& updates) {
  copy_choices<ChoiceGroup::Updates>(updates, representative);
  return representative;
}

const std::vector<Candidate>& CandidateGroups::updates_of(const Candidate& representative) {
  const auto [entry, is_new] = updates_.try_emplace(
      {representative.leading_gpu_optimizer, representative.trailing_gpu_optimizer,
       representative.trailing_nvme_optimizer, representative.snapshot,
       representative.batch.accumulation > 1});
  std::vector<Candidate>& updates = entry->second;
  if (!is_new) return updates;
  const NormalForm normal_form(architecture_, num_gpus_, space_.clips);
  Candidate c = representative;
  for_each_combination<ChoiceGroup::Updates>(space_, c, [&] {
    const Candidate normal = normal_form.of(c);
    if (normal.gpu_adam_units > 0 && normal.late_updates > 0) return;
    if (space_.clips && !normal.speculate && normal.late_updates > 0) return;  // late all the same
    updates.push_back(with_updates(Candidate(), normal));
  });
  std::ranges::sort(updates, {}, [](const Candidate& u) { return std::tuple(-u.adam_threads, u); });
  const auto repeats = std::ranges::unique(updates);
  updates.erase(repeats.begin(), repeats.end());
  return updates;
}

std::vector<Candidate> CandidateGroups::members(const Candidate& representative) {
  std::vector<Candidate> members;
  for (const Candidate& updates : updates_of(representative)) {
    members.push_back(with_updates(representative, updates));
  }
  return members;
}

CandidateSet CandidateGroups::whole(const Candidate& representative, bool in_order) {
  CandidateSet set{.candidate = representative, .in_order = in_order};
  const std::vector<Candidate>& updates = updates_of(representative);
  if (!updates.empty()) set.candidate.adam_threads = updates.front().adam_threads;
  set.plans = in_order ? std::ranges::count_if(updates, is_in_order) : std::ssize(updates);
  return set;
}

std::vector<CandidateSet> CandidateGroups::branches(const CandidateSet& set) {
  const SearchLevel level =
      set.level == SearchLevel::Group ? SearchLevel::Subgroup : SearchLevel::Leaf;
  std::vector<CandidateSet> branches;
  std::int64_t index = 0;
  for (const Candidate& updates : updates_of(set.candidate)) {
    const Candidate member = with_updates(set.candidate, updates);
    if ((set.in_order && !is_in_order(updates)) || !agree(member, set.candidate, set.level))
      continue;
    if (branches.empty() || !agree(member, branches.back().candidate, level)) {
      branches.push_back({member, SearchLevel::Leaf, set.in_order, 0, index});
    }
    CandidateSet& branch = branches.back();
    if (++branch.plans == 2) {
      branch.level = level;
      branch.candidate.late_updates = 0;
      branch.candidate.speculate = false;
    }
    ++index;
  }
  return branches;
}

}  // namespace athanor
