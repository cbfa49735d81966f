// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/search.hpp"

#include "sim/model/errors.hpp"
#include "sim/model/lowering.hpp"
#include "sim/tune/bounds.hpp"
#include "sim/tune/explain.hpp"
#include "sim/tune/nearest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace athanor {
namespace {

/// Room for the engine's rounding when a bound is compared with a simulated time.
constexpr double kBoundSlack = 1 - 1e-6;

using Key = std::tuple<Seconds, Bytes, std::int64_t>;

Key key_of(const Evaluated& e, Seconds seconds) {
  return {seconds, total_bytes(e.peak_bytes), e.index};
}

std::string slower_text(Seconds seconds, Seconds best) {
  const double ratio = best > 0 ? seconds / best : 1;
  constexpr double kClose = 1.1;
  return ratio < kClose ? fmt::format("{:.2g} % slower", 100 * (ratio - 1))
                        : fmt::format("{:.3g} x slower", ratio);
}

/// Why `e`, which fits, is not the best.
std::string reason_of(const Evaluated& e, const Evaluated& best) {
  if (e.outcome == Outcome::Bounded) {
    const Seconds above = std::max(0.0, e.bound_seconds - best.step_seconds);
    return fmt::format("bound {} above best", format_seconds(above));
  }
  if (e.step_seconds == best.step_seconds) return "equally fast, needs no fewer bytes";
  return fmt::format("simulated {}: bottleneck {}", slower_text(e.step_seconds, best.step_seconds),
                     e.bottleneck);
}

class Search {
 public:
  Search(const Profile& profile, const Platform& platform, Engine& engine,
         const PlanRequest& request, const SearchOptions& options)
      : profile_(profile),
        platform_(platform),
        engine_(engine),
        request_(request),
        options_(options),
        limits_(effective_limits(request, platform)) {}

  SearchResult run(const SearchSpace& space) {
    collect(space);
    screen();
    if (promising_.empty()) throw_infeasible();
    simulate_promising();
    return rank();
  }

 private:
  void report(const char* stage, std::int64_t done, std::size_t total) const {
    if (options_.progress) options_.progress(stage, done, static_cast<std::int64_t>(total));
  }

  Program lowered(const Evaluated& e) const {
    return lower(profile_, make_plan(e.candidate, profile_, request_));
  }

  void collect(const SearchSpace& space) {
    enumerate(space, profile_.architecture, request_.num_gpus, [&](const Candidate& candidate) {
      Evaluated e;
      e.candidate = candidate;
      e.index = static_cast<std::int64_t>(all_.size());
      all_.push_back(std::move(e));
    });
  }

  /// Memory and lower bound of every candidate.
  void screen() {
    for (Evaluated& e : all_) {
      report("bounding", e.index, all_.size());
      const Program program = lowered(e);
      e.peak_bytes = peak_bytes(program);
      const auto overflows = memory_overflows(e.peak_bytes, request_.num_gpus, limits_);
      if (!overflows.empty()) {
        e.reason = fmt::format("does not fit: {}", fmt::join(overflows, "; "));
        continue;
      }
      e.outcome = Outcome::Bounded;
      e.bound_seconds = lower_bound_seconds(program, platform_);
      promising_.push_back(&e);
    }
  }

  /// In ascending order of bound, until no bound can beat the slowest plan kept.
  void simulate_promising() {
    std::sort(promising_.begin(), promising_.end(), [](const Evaluated* a, const Evaluated* b) {
      return key_of(*a, a->bound_seconds) < key_of(*b, b->bound_seconds);
    });
    const SimulationOptions quick{.record_intervals = false};
    std::vector<Key> kept;  // the best so far, ascending
    const auto keep = static_cast<std::size_t>(std::max(1, options_.keep));
    std::int64_t done = 0;
    for (Evaluated* e : promising_) {
      report("simulating", done++, promising_.size());
      if (kept.size() == keep && key_of(*e, e->bound_seconds * kBoundSlack) > kept.back()) {
        continue;
      }
      const Program program = lowered(*e);
      e->step_seconds = engine_.simulate(program, quick).step_seconds;
      e->outcome = Outcome::Simulated;
      const Load busiest = step_loads(program, platform_, e->step_seconds).front();
      e->bottleneck = busiest.name;
      const Key key = key_of(*e, e->step_seconds);
      kept.insert(std::upper_bound(kept.begin(), kept.end(), key), key);
      if (kept.size() > keep) kept.pop_back();
    }
  }

  SearchResult rank() {
    const auto order = [](const Evaluated& e) {
      const Seconds seconds = e.outcome == Outcome::Simulated ? e.step_seconds : e.bound_seconds;
      return std::make_tuple(e.outcome, key_of(e, seconds));
    };
    std::sort(all_.begin(), all_.end(),
              [&](const Evaluated& a, const Evaluated& b) { return order(a) < order(b); });
    SearchResult result;
    const Evaluated& best = all_.front();
    for (Evaluated& e : all_) {
      result.num_simulated += e.outcome == Outcome::Simulated ? 1 : 0;
      result.num_bounded += e.outcome == Outcome::Bounded ? 1 : 0;
      result.num_not_fitting += e.outcome == Outcome::DoesNotFit ? 1 : 0;
      if (&e != &best && e.outcome != Outcome::DoesNotFit) e.reason = reason_of(e, best);
    }
    result.best = make_plan(best.candidate, profile_, request_);
    result.best.prediction = Prediction{best.step_seconds, best.peak_bytes};
    result.ranked = std::move(all_);
    return result;
  }

  [[noreturn]] void throw_infeasible() const {
    std::vector<TierBytes> peaks;
    for (const Evaluated& e : all_) peaks.push_back(e.peak_bytes);
    throw InfeasibleError(no_plan_fits(peaks, profile_, platform_, request_));
  }

  const Profile& profile_;
  const Platform& platform_;
  Engine& engine_;
  const PlanRequest& request_;
  const SearchOptions& options_;
  MemoryLimits limits_;
  std::vector<Evaluated> all_;
  std::vector<Evaluated*> promising_;
};

}  // namespace

SearchResult search(const Profile& profile, const Platform& platform, Engine& engine,
                    const SearchSpace& space, const PlanRequest& request,
                    const SearchOptions& options) {
  validate_request(request, profile, platform);
  return Search(profile, platform, engine, request, options).run(space);
}

}  // namespace athanor
