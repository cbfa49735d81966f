// SPDX-License-Identifier: Apache-2.0
#include "sim/search/ranking.hpp"

#include "sim/model/memory.hpp"
#include "sim/policy/request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace athanor {
namespace {

auto full_key(const Evaluated& e, Seconds slowest) {
  const bool simulated = e.outcome == Outcome::Simulated;
  const Seconds seconds = simulated ? e.step_seconds : e.bound_seconds;
  const bool by_energy = simulated && seconds <= slowest;
  return std::make_tuple(e.outcome, !by_energy, by_energy ? e.step_joules : 0,
                         rank_key(e, seconds));
}

std::string slower_text(Seconds seconds, Seconds best) {
  const double ratio = best > 0 ? seconds / best : 1;
  constexpr double kClose = 1.1;
  return ratio < kClose ? fmt::format("{:.2g} % slower", 100 * (ratio - 1))
                        : fmt::format("{:.3g} x slower", ratio);
}

}  // namespace

RankKey rank_key(const Evaluated& e, Seconds seconds) {
  return {seconds, total_bytes(e.peak_bytes), e.index};
}

/// There may be millions of plans, so keys are sorted, and each plan is moved once.
void sort_by_rank(std::vector<Evaluated>& plans, Seconds slowest) {
  std::vector<std::pair<decltype(full_key(plans.front(), slowest)), std::size_t>> order;
  order.reserve(plans.size());
  for (const Evaluated& plan : plans) order.emplace_back(full_key(plan, slowest), order.size());
  std::ranges::sort(order);
  for (std::size_t first = 0; first < plans.size(); ++first) {
    Evaluated displaced = std::move(plans[first]);
    std::size_t to = first;
    while (order[to].second != first) {
      const std::size_t from = std::exchange(order[to].second, to);
      plans[to] = std::move(plans[from]);
      to = from;
    }
    order[to].second = to;
    plans[to] = std::move(displaced);
  }
}

std::string why_not_best(const Evaluated& e, const SearchResult& result) {
  const Evaluated& best = result.ranked.front();
  if (&e == &best) return "";
  if (e.outcome == Outcome::DoesNotFit) {
    const auto overflows = memory_overflows(e.peak_bytes, result.ranks_per_node, result.limits);
    return fmt::format("does not fit: {}", fmt::join(overflows, "; "));
  }
  if (e.outcome == Outcome::Pruned) {
    const Seconds above = std::max(0.0, e.bound_seconds - best.step_seconds);
    return fmt::format("bound {} above best", format_seconds(above));
  }
  if (e.step_seconds < best.step_seconds) {
    return fmt::format("{:.2g} % faster, {:.2g} % more energy",
                       100 * (best.step_seconds / e.step_seconds - 1),
                       100 * (e.step_joules / best.step_joules - 1));
  }
  if (e.step_seconds == best.step_seconds) return "equally fast, needs no fewer bytes";
  return fmt::format("simulated {}: bottleneck {}", slower_text(e.step_seconds, best.step_seconds),
                     e.bottleneck);
}

}  // namespace athanor
