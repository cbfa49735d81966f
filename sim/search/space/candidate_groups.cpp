// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/candidate_groups.hpp"

#include "sim/search/space/normal_form.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace athanor {
namespace {

/// Whether two members of a group belong to the same set of that level.
bool agree(const Candidate& a, const Candidate& b, SearchLevel level) {
  if (level == SearchLevel::Leaf) return a == b;
  return level == SearchLevel::Group ||
         (a.adam_threads == b.adam_threads && a.gpu_adam_units == b.gpu_adam_units);
}

}  // namespace

CandidateGroups::CandidateGroups(const SearchSpace& space, const Architecture& architecture,
                                 int num_gpus, MemoryCheck memory)
    : space_(space),
      architecture_(architecture),
      num_gpus_(num_gpus),
      families_(space, architecture, num_gpus, std::move(memory)) {}

void CandidateGroups::for_each(const std::function<void(const Candidate&)>& visit) const {
  for (std::size_t family = 0; family < families_.size(); ++family) {
    for (const Candidate& candidate : families_.representatives(family)) visit(candidate);
  }
}

bool CandidateGroups::some_fits() const {
  for (std::size_t family = 0; family < families_.size(); ++family) {
    if (families_.some_fits(family)) return true;
  }
  return false;
}

std::int64_t CandidateGroups::num_plans(std::size_t family) {
  std::int64_t plans = 0;
  families_.for_each_placement(family, [&](const Candidate& representative, std::int64_t groups) {
    plans += groups * std::ssize(updates_of(representative));
  });
  return plans;
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
