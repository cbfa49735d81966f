// SPDX-License-Identifier: Apache-2.0
#include "sim/search/candidate_groups.hpp"

#include "sim/model/chunk_layout.hpp"

#include <algorithm>

namespace athanor {
namespace {

/// Leading and trailing counts that cover all `num_units` are the same as all leading.
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
  // Counted from the end, so that those on the GPU are among them.
  c.trailing_nvme_optimizer =
      c.trailing_nvme_optimizer <= c.trailing_gpu_optimizer
          ? 0
          : std::min(c.trailing_nvme_optimizer, num_units - c.leading_gpu_optimizer);
  const int first_in_file =
      std::max(c.leading_gpu_parameters, num_units - c.trailing_nvme_optimizer);
  if (first_in_file >= num_units - c.trailing_gpu_parameters) c.nvme_parameters = false;
}

/// What normal_form needs to know of an architecture.
class NormalForm {
 public:
  NormalForm(const Architecture& architecture, int num_gpus, bool clips)
      : clips_(clips),
        num_units_(static_cast<int>(architecture.units.size())),
        class_size_(largest_class_size(architecture)),
        cut_(num_gpus * kParameterAlignment),
        largest_chunk_(round_up(largest_unit_elements(architecture), cut_)) {}

  [[nodiscard]] int num_units() const noexcept { return num_units_; }

  [[nodiscard]] Candidate of(const Candidate& candidate) const {
    Candidate c = candidate;
    c.chunk_elements = std::min(round_up(c.chunk_elements, cut_), largest_chunk_);
    c.recompute_units = std::min(c.recompute_units, num_units_ - 1);
    c.offload_units =
        std::clamp(std::min(c.recompute_units - 1, num_units_ - 3), 0, c.offload_units);
    c.gradient_buffers = std::min(c.gradient_buffers, class_size_);
    normalise_placement(c, num_units_);
    normalise_updates(c);
    if (c.sharding == Sharding::Sharded) {
      c.cache_slots = std::max(std::min(c.cache_slots, class_size_), c.prefetch_depth + 1);
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
    // The norm of gradients that were added up on the host is summed there.
    const bool sums = clips_ && c.batch.accumulation > 1;
    const bool updates = first_on_cpu < num_units_ - c.trailing_gpu_optimizer;
    if (c.leading_gpu_optimizer == num_units_ || !(updates || sums)) c.adam_threads = 1;
  }

  bool clips_;
  int num_units_, class_size_;
  std::int64_t cut_, largest_chunk_;
};

/// Calls `visit` for each value of one list, assigned to `member`.
template <typename T, typename Visit>
void for_each_value(Candidate& candidate, T Candidate::* member, const std::vector<T>& values,
                    const Visit& visit) {
  for (const T& value : values) {
    candidate.*member = value;
    visit();
  }
}

template <typename T>
std::vector<T> without_repeats(const std::vector<T>& values) {
  std::vector<T> distinct;
  for (const T& value : values) {
    if (std::ranges::find(distinct, value) == distinct.end()) distinct.push_back(value);
  }
  return distinct;
}

/// The choices of one sharding in sets of which none says anything about the normal form of
/// another: each is made distinct alone, and no two candidates of their product are the same.
class Choices {
 public:
  Choices(const SearchSpace& space, const NormalForm& normal_form, int num_gpus, Sharding sharding)
      : space_(space), normal_form_(normal_form), num_gpus_(num_gpus) {
    using C = Candidate;
    Candidate any;
    any.sharding = sharding;
    placements_ = distinct(any, [&](C& c, const auto& add) { for_each_placement(c, add); });
    if (placements_.empty()) return;
    any = placements_.front();
    chunks_ = distinct(any, [&](C& c, const auto& add) {
      for_each_value(c, &C::chunk_elements, space.chunk_elements, add);
    });
    activations_ = distinct(any, [&](C& c, const auto& add) {
      for_each_value(c, &C::recompute_units, space.recompute_units,
                     [&] { for_each_value(c, &C::offload_units, space.offload_units, add); });
    });
    pools_ = distinct(any, [&](C& c, const auto& add) {
      for_each_value(c, &C::cache_slots, space.cache_slots, [&] {
        for_each_value(c, &C::prefetch_depth, space.prefetch_depths, [&] {
          for_each_value(c, &C::gradient_buffers, space.gradient_buffers, add);
        });
      });
    });
  }

  template <typename Visit>
  void for_each(const BatchSplit& batch, const Visit& visit) const {
    for (const Candidate& chunk : chunks_) {
      for (const Candidate& activation : activations_) {
        for (Candidate representative : placements_) {
          representative.batch = batch;
          representative.chunk_elements = chunk.chunk_elements;
          representative.recompute_units = activation.recompute_units;
          representative.offload_units = activation.offload_units;
          for (const Candidate& pool : pools_) {
            representative.cache_slots = pool.cache_slots;
            representative.prefetch_depth = pool.prefetch_depth;
            representative.gradient_buffers = pool.gradient_buffers;
            visit(representative);
          }
        }
      }
    }
  }

 private:
  template <typename Add>
  void for_each_placement(Candidate& c, const Add& add) const {
    using C = Candidate;
    for_each_value(c, &C::leading_gpu_optimizer, space_.leading_gpu_optimizer, [&] {
      for_each_value(c, &C::trailing_gpu_optimizer, space_.trailing_gpu_optimizer, [&] {
        for_each_value(c, &C::trailing_nvme_optimizer, space_.trailing_nvme_optimizer, [&] {
          for_each_value(c, &C::nvme_parameters, space_.nvme_parameters, [&] {
            for_each_value(c, &C::leading_gpu_parameters, space_.leading_gpu_parameters, [&] {
              for_each_value(c, &C::trailing_gpu_parameters, space_.trailing_gpu_parameters, add);
            });
          });
        });
      });
    });
  }

  /// Normal forms of what `for_each` makes of `candidate` and is sensible.
  template <typename ForEach>
  [[nodiscard]] std::vector<Candidate> distinct(Candidate candidate,
                                                const ForEach& for_each) const {
    std::vector<Candidate> forms;
    for_each(candidate, [&] {
      if (is_sensible(candidate, num_gpus_, normal_form_.num_units())) {
        forms.push_back(normal_form_.of(candidate));
      }
    });
    return without_repeats(forms);
  }

  const SearchSpace& space_;
  const NormalForm& normal_form_;
  int num_gpus_;
  std::vector<Candidate> placements_, chunks_, activations_, pools_;
};

/// Whether two of a group have in common what all of a set of that scope have.
bool agree(const Candidate& a, const Candidate& b, SearchLevel scope) {
  if (scope == SearchLevel::Leaf) return a == b;
  return scope == SearchLevel::Group ||
         (a.adam_threads == b.adam_threads && a.gpu_adam_units == b.gpu_adam_units);
}

}  // namespace

Candidate normal_form(const Candidate& candidate, const Architecture& architecture, int num_gpus,
                      bool clips) {
  return NormalForm(architecture, num_gpus, clips).of(candidate);
}

CandidateGroups::CandidateGroups(const SearchSpace& space, const Architecture& architecture,
                                 int num_gpus)
    : space_(space), architecture_(architecture), num_gpus_(num_gpus) {
  space.validate();
}

void CandidateGroups::for_each(const std::function<void(const Candidate&)>& visit) const {
  const NormalForm normal_form(architecture_, num_gpus_, space_.clips);
  std::vector<Choices> choices;
  for (const Sharding sharding : without_repeats(space_.shardings)) {
    choices.emplace_back(space_, normal_form, num_gpus_, sharding);
  }
  for (const BatchSplit& batch : without_repeats(space_.batches)) {
    for (const Choices& of_sharding : choices) of_sharding.for_each(batch, visit);
  }
}

Candidate CandidateGroups::Updates::applied_to(Candidate representative) const {
  representative.adam_threads = adam_threads;
  representative.gpu_adam_units = gpu_adam_units;
  representative.late_updates = late_updates;
  representative.speculate = speculate;
  return representative;
}

const std::vector<CandidateGroups::Updates>& CandidateGroups::updates_of(
    const Candidate& representative) {
  const auto [entry, is_new] = updates_.try_emplace(
      {representative.leading_gpu_optimizer, representative.trailing_gpu_optimizer,
       representative.trailing_nvme_optimizer, representative.batch.accumulation > 1});
  std::vector<Updates>& updates = entry->second;
  if (!is_new) return updates;
  const NormalForm normal_form(architecture_, num_gpus_, space_.clips);
  using C = Candidate;
  Candidate c = representative;
  const auto add = [&] {
    const Candidate normal = normal_form.of(c);
    if (normal.gpu_adam_units > 0 && normal.late_updates > 0) return;
    if (space_.clips && !normal.speculate && normal.late_updates > 0) return;  // late all the same
    updates.push_back(
        {normal.adam_threads, normal.gpu_adam_units, normal.late_updates, normal.speculate});
  };
  for_each_value(c, &C::adam_threads, space_.adam_threads, [&] {
    for_each_value(c, &C::speculate, space_.speculate, [&] {
      for_each_value(c, &C::gpu_adam_units, space_.gpu_adam_units,
                     [&] { for_each_value(c, &C::late_updates, space_.late_updates, add); });
    });
  });
  std::ranges::sort(updates, {}, [](const Updates& u) {
    return std::tuple(-u.adam_threads, u.gpu_adam_units, u.late_updates, u.speculate);
  });
  const auto repeats = std::ranges::unique(updates);
  updates.erase(repeats.begin(), repeats.end());
  return updates;
}

std::vector<Candidate> CandidateGroups::members(const Candidate& representative) {
  std::vector<Candidate> members;
  for (const Updates& updates : updates_of(representative))
    members.push_back(updates.applied_to(representative));
  return members;
}

CandidateSet CandidateGroups::whole(const Candidate& representative, bool in_order) {
  CandidateSet set{.candidate = representative, .in_order = in_order};
  const std::vector<Updates>& updates = updates_of(representative);
  if (!updates.empty()) set.candidate.adam_threads = updates.front().adam_threads;
  set.plans = in_order ? std::ranges::count_if(updates, &Updates::in_order) : std::ssize(updates);
  return set;
}

std::vector<CandidateSet> CandidateGroups::parts(const CandidateSet& set) {
  const SearchLevel scope =
      set.scope == SearchLevel::Group ? SearchLevel::Subgroup : SearchLevel::Leaf;
  std::vector<CandidateSet> parts;
  std::int64_t index = 0;
  for (const Updates& updates : updates_of(set.candidate)) {
    const Candidate member = updates.applied_to(set.candidate);
    if ((set.in_order && !updates.in_order()) || !agree(member, set.candidate, set.scope)) continue;
    if (parts.empty() || !agree(member, parts.back().candidate, scope)) {
      parts.push_back({member, SearchLevel::Leaf, set.in_order, 0, index});
    }
    CandidateSet& part = parts.back();
    if (++part.plans == 2) {
      part.scope = scope;
      part.candidate.late_updates = 0;
      part.candidate.speculate = false;
    }
    ++index;
  }
  return parts;
}

void enumerate(const SearchSpace& space, const Architecture& architecture, int num_gpus,
               const std::function<void(const Candidate&)>& visit) {
  CandidateGroups groups(space, architecture, num_gpus);
  groups.for_each([&](const Candidate& representative) {
    std::ranges::for_each(groups.members(representative), visit);
  });
}

}  // namespace athanor
