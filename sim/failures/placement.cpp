// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/placement.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace athanor {
namespace {

/// Distribution of how many of the failures a part of the machines has had; one entry for each
/// number.
using Distribution = std::vector<double>;

/// Weights of having 0, 1, .. `most` failures in one part, up to a common factor: the first is 1,
/// and each of the others follows from the one before it by `ratio`.
template <typename Ratio>
void fill_weights(Distribution& weights, int most, const Ratio& ratio) {
  weights.assign(static_cast<std::size_t>(most) + 1, 1.0);
  for (int count = 0; count < most; ++count) {
    weights[count + 1] = weights[count] * ratio(count);
  }
}

/// Probabilities that `size` machines have 0, 1, .. of the `failures` of `machines`, of which they
/// are a part: the hypergeometric distribution.
void fill_hypergeometric(Distribution& weights, int machines, int size, int failures) {
  const int rest = machines - size;
  const int least = std::max(0, failures - rest);
  const int most = std::min(size, failures);
  // The weights start at the least possible number, which is 0 unless few machines are left.
  fill_weights(weights, most - least, [=](int step) {
    const int count = least + step;
    return static_cast<double>(size - count) * (failures - count) /
           (static_cast<double>(count + 1) * (rest - failures + count + 1));
  });
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight /= sum;
  weights.insert(weights.begin(), static_cast<std::size_t>(least), 0.0);
}

/// Moves the failures of the next group from those that are left. `left[f]` is the probability that
/// no group before was lost and that f failures are left for `machines`. A group of which all
/// machines fail is lost.
void pass_group(Distribution& left, int machines, int size) {
  Distribution next(left.size(), 0.0), weights;
  for (int failures = 0; failures < std::ssize(left); ++failures) {
    if (left[failures] == 0 || failures > machines) continue;
    fill_hypergeometric(weights, machines, size, failures);
    for (int count = 0; count < std::min<int>(size, static_cast<int>(weights.size())); ++count) {
      next[failures - count] += left[failures] * weights[count];
    }
  }
  left = std::move(next);
}

/// Probability that no `num_copies` neighbours in a ring of `machines` are among `failures`.
///
/// The machines that run divide the ring into as many gaps. A ring with z of them and k failures
/// stands for machines / z ways to write k as an ordered sum of z gaps, whichever ring it is, so
/// all such sums are alike likely, and a state is lost where a gap reaches num_copies.
double ring_survival(int machines, int num_copies, int failures) {
  if (failures < num_copies) return 1;
  Distribution left(static_cast<std::size_t>(failures) + 1, 0.0);
  left[failures] = 1;
  for (int gaps = machines - failures; gaps > 1; --gaps) {
    Distribution next(left.size(), 0.0);
    for (int rest = 0; rest <= failures; ++rest) {
      // The first of `gaps` gaps is empty with this probability; longer ones follow by ratios.
      double weight = left[rest] * (gaps - 1) / (rest + gaps - 1);
      for (int gap = 0; gap < num_copies && gap <= rest; ++gap) {
        next[rest - gap] += weight;
        if (gap < rest) weight *= static_cast<double>(rest - gap) / (rest - gap + gaps - 2);
      }
    }
    left = std::move(next);
  }
  if (machines == failures) return 0;
  double survival = 0;  // the last gap takes what is left
  for (int rest = 0; rest < num_copies; ++rest) survival += left[rest];
  return survival;
}

/// Sets of num_copies machines whose loss loses a state.
int num_fatal_sets(const CopyPlacement& placement) {
  const int ring = placement.ring_machines();
  return placement.num_groups() + (ring == placement.num_copies ? 1 : ring);
}

}  // namespace

int CopyPlacement::ring_machines() const noexcept {
  const int rest = num_machines % num_copies;
  switch (rule) {
    case PlacementRule::Groups:
      return 0;
    case PlacementRule::Ring:
      return num_machines;
    case PlacementRule::Mixed:
      return rest == 0 ? 0 : num_copies + rest;
  }
  return 0;
}

std::vector<int> CopyPlacement::holders(int owner) const {
  std::vector<int> machines(static_cast<std::size_t>(num_copies));
  const int ring = ring_machines();
  const int first = num_machines - ring;
  for (int copy = 0; copy < num_copies; ++copy) {
    machines[copy] = owner < first ? owner / num_copies * num_copies + copy
                                   : first + (owner - first + copy) % ring;
  }
  return machines;
}

bool CopyPlacement::survives(const std::vector<bool>& failed) const {
  for (int owner = 0; owner < num_machines; ++owner) {
    if (!failed[owner]) continue;  // its own memory is there
    const std::vector<int> machines = holders(owner);
    if (std::ranges::all_of(machines, [&](int machine) { return failed[machine]; })) return false;
  }
  return true;
}

void CopyPlacement::validate(const std::string& where) const {
  if (num_copies < 1 || num_copies > num_machines) {
    throw InputError(where, fmt::format("{} copies on {} machines", num_copies, num_machines),
                     num_machines == 1 ? "Give copies=1, or more machines (--gpus)."
                                       : fmt::format("Use 1 to {} copies.", num_machines));
  }
  if (rule == PlacementRule::Groups && num_machines % num_copies != 0) {
    throw InputError(where,
                     fmt::format("{} machines do not make groups of {}", num_machines, num_copies),
                     "Use mixed, which closes the rest to a ring.");
  }
}

double survival_probability(const CopyPlacement& placement, int num_failed) {
  if (num_failed < placement.num_copies) return 1;
  Distribution left(static_cast<std::size_t>(num_failed) + 1, 0.0);
  left[num_failed] = 1;
  const int ring = placement.ring_machines();
  for (int rest = placement.num_machines; rest > ring; rest -= placement.num_copies) {
    pass_group(left, rest, placement.num_copies);
  }
  if (ring == 0) return left[0];
  double survival = 0;
  for (int failures = 0; failures <= std::min(num_failed, ring); ++failures) {
    survival += left[failures] * ring_survival(ring, placement.num_copies, failures);
  }
  return survival;
}

double survival_bound(const CopyPlacement& placement, int num_failed) {
  if (num_failed < placement.num_copies) return 1;
  double one_set_lost = 1;  // probability that the failures hold one given set of num_copies
  for (int i = 0; i < placement.num_copies; ++i) {
    one_set_lost *= static_cast<double>(num_failed - i) / (placement.num_machines - i);
  }
  return std::max(0.0, 1 - num_fatal_sets(placement) * one_set_lost);
}

}  // namespace athanor
