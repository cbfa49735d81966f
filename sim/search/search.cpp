// SPDX-License-Identifier: Apache-2.0
#include "sim/search/search.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/cost/scaling.hpp"
#include "sim/model/memory.hpp"
#include "sim/search/candidate_evaluator.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/incumbents.hpp"
#include "sim/search/infeasibility_advice.hpp"
#include "sim/search/pareto.hpp"
#include "sim/search/ranking.hpp"
#include "sim/search/search_tree.hpp"
#include "sim/search/worker_pool.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Candidates that are evaluated between two looks at the incumbents.
constexpr std::size_t kRound = 32;
/// Fewer candidates are evaluated faster than processes start.
constexpr std::int64_t kMinCandidatesForWorkers = 64;

class Search {
 public:
  /// The problem's platform has the host_update_slowdown of `options`; `engine` simulates it
  /// without.
  Search(const TuningProblem& problem, Engine& engine, const SearchSpace& space,
         const SearchOptions& options)
      : problem_(problem),
        options_(options),
        estimator_(problem, space.adam_threads, options.bound_terms),
        tree_(problem, space, estimator_, options.memory > 0 ? options.memory : usable_memory()),
        evaluator_(problem, engine, space.adam_threads, options.host_update_slowdown,
                   estimator_.tables()),
        incumbents_(options.keep, options.energy_within) {}

  SearchResult run() {
    collect();
    if (options_.front && !tree_.is_empty()) start_front();
    simulate_promising();
    if (num_simulated_ == 0) throw_infeasible();
    return rank();
  }

 private:
  void report(const char* stage, std::int64_t done, std::size_t total) const {
    if (options_.progress) options_.progress(stage, done, static_cast<std::int64_t>(total));
  }

  void collect() {
    const std::size_t families = tree_.num_families();
    for (std::size_t family = 0; family < families; ++family) {
      report("bounding", static_cast<std::int64_t>(family), families);
      tree_.add_family();
    }
  }

  /// A front looks at the memory of each group.
  void start_front() {
    tree_.divide_families();
    std::vector<TierBytes> fitting;
    for (const Evaluated& e : tree_.entries()) {
      if (e.outcome != Outcome::DoesNotFit) fitting.push_back(e.peak_bytes);
    }
    resolution_ = complete_resolution(*options_.front, fitting, problem_.ranks_per_node);
    incumbents_.want_front(resolution_, problem_.ranks_per_node);
  }

  /// Takes nodes in ascending order of bound until all that are left are pruned. A node is
  /// branched, a leaf gets the bound of its lowered program, and then its simulation. Rounds have
  /// one size, so the answer is the same for any number of workers.
  void simulate_promising() {
    const int workers = options_.workers > 0 ? options_.workers : usable_cores();
    std::optional<WorkerPool> pool;
    if (workers > 1 && tree_.num_waiting() > kMinCandidatesForWorkers) {
      pool.emplace(workers, [this](const Job& job) { return evaluator_.evaluate(job); });
    }
    for (std::vector<Job> round = next_round(); !round.empty(); round = next_round()) {
      if (options_.progress) report_simulated();
      if (pool) {
        const std::vector<JobResult> results = pool->run(round);
        for (std::size_t i = 0; i < round.size(); ++i) record(round[i], results[i]);
      } else {
        for (const Job& job : round) record(job, evaluator_.evaluate(job));
      }
    }
  }

  /// Counts what is left as all that no bound has ruled out yet: most of it will be. There may be
  /// millions, so not in every round.
  void report_simulated() {
    constexpr std::chrono::milliseconds kBetween{500};
    const auto now = std::chrono::steady_clock::now();
    if (now < next_report_) return;
    next_report_ = now + kBetween;
    const auto is_open = [this](const Evaluated& e) {
      return e.outcome == Outcome::Pruned && !incumbents_.prunes(e);
    };
    const auto open = std::ranges::count_if(tree_.entries(), is_open);
    report("simulating", num_simulated_, static_cast<std::size_t>(num_simulated_ + open));
  }

  [[nodiscard]] std::vector<Job> next_round() {
    std::vector<Job> round;
    std::vector<SearchTree::Node> waiting;  // for bounds that this round computes
    while (round.size() < kRound && !tree_.is_empty()) {
      const SearchTree::Node first = tree_.top();
      const Evaluated& e = tree_.entries()[first.position];
      const bool is_out = incumbents_.prunes(e);
      if (is_out && !incumbents_.front()) break;  // and so are all that follow
      tree_.pop();
      if (is_out) continue;
      if (first.level != SearchLevel::Leaf) {
        tree_.branch(first, incumbents_.cutoff());
        continue;
      }
      const auto known = refined_.find(with_any_threads(e.candidate));
      if (first.is_refined || (known == refined_.end() && !refinement_pays())) {
        round.push_back({static_cast<std::int64_t>(first.position), e.candidate, true});
      } else if (known == refined_.end()) {
        refined_.emplace(with_any_threads(e.candidate), std::nullopt);
        round.push_back({static_cast<std::int64_t>(first.position), e.candidate, false});
      } else if (known->second) {
        tree_.refine(first.position, *known->second);
      } else {
        waiting.push_back(first);
      }
    }
    for (const SearchTree::Node& node : waiting) tree_.push(node);
    return round;
  }

  static Candidate with_any_threads(Candidate candidate) {
    candidate.adam_threads = 0;
    return candidate;
  }

  /// Whether to lower a leaf for a better bound first. That costs about as much as its simulation,
  /// and in some spaces the bound hardly ever rises: there only a sample is lowered.
  [[nodiscard]] bool refinement_pays() {
    constexpr std::int64_t kRaisedOneIn = 4, kSampledOneIn = 8;  // fractions 1 / n
    if (num_refined_ < static_cast<std::int64_t>(kRound)) return true;
    return kRaisedOneIn * num_raised_ >= num_refined_ || ++num_unrefined_ % kSampledOneIn == 0;
  }

  void record(const Job& job, const JobResult& result) {
    Evaluated& e = tree_.entries()[static_cast<std::size_t>(job.index)];
    if (!job.simulate) {
      ++num_refined_;
      num_raised_ += result.seconds * kBoundSlack > e.bound_seconds ? 1 : 0;
      refined_[with_any_threads(job.candidate)] = result.seconds;
      tree_.refine(static_cast<std::size_t>(job.index), result.seconds);
      return;
    }
    e.step_seconds = result.seconds;
    e.step_joules = result.joules;
    e.outcome = Outcome::Simulated;
    e.bottleneck = result.bottleneck.data();
    incumbents_.add(e);
    ++num_simulated_;
  }

  SearchResult rank() {
    SearchResult result;
    result.ranked = std::move(tree_.entries());
    std::erase_if(result.ranked, [](const Evaluated& e) { return e.plans == 0; });
    sort_by_rank(result.ranked, incumbents_.slowest());
    result.num_lowered = num_refined_;
    result.limits = problem_.limits;
    result.ranks_per_node = problem_.ranks_per_node;
    const Evaluated& best = result.ranked.front();
    for (const Evaluated& e : result.ranked) {
      result.num_simulated += e.outcome == Outcome::Simulated ? 1 : 0;
      result.num_pruned += e.outcome == Outcome::Pruned ? e.plans : 0;
      result.num_not_fitting += e.outcome == Outcome::DoesNotFit ? e.plans : 0;
    }
    result.best = make_plan(best.candidate, problem_.profile, problem_.request);
    const bool as_measured = options_.host_update_slowdown == 1;
    result.best.prediction = Prediction{
        as_measured ? best.step_seconds : evaluator_.step_seconds_as_measured(best.candidate),
        best.peak_bytes};
    if (incumbents_.front()) {
      result.front = incumbents_.front()->plans();
      result.front_resolution = resolution_;
    }
    return result;
  }

  [[noreturn]] void throw_infeasible() {
    CandidateGroups& groups = tree_.groups();
    ClosestPlans closest(problem_);
    groups.for_each([&](const Candidate& representative) {
      const Candidate whole = groups.whole(representative, /*in_order=*/false).candidate;
      const std::vector<Candidate> members = groups.members(representative);
      const auto has_its_memory = [&](Candidate member) {
        member.adam_threads = whole.adam_threads;
        return member == whole;
      };
      if (std::ranges::any_of(members, has_its_memory)) {
        closest.add(estimator_.peak_bytes(whole));  // the others need no less
      } else {
        for (const Candidate& member : members) closest.add(estimator_.peak_bytes(member));
      }
    });
    throw no_plan_fits(closest, problem_);
  }

  const TuningProblem& problem_;
  const SearchOptions& options_;
  Estimator estimator_;
  SearchTree tree_;
  CandidateEvaluator evaluator_;
  Incumbents incumbents_;
  /// Bounds of lowered programs by the candidate with_any_threads; none: asked for, not known yet.
  std::map<Candidate, std::optional<Seconds>> refined_;
  FrontResolution resolution_;
  std::chrono::steady_clock::time_point next_report_;
  std::int64_t num_simulated_ = 0;
  std::int64_t num_refined_ = 0, num_raised_ = 0;  ///< lowered; with a better bound
  std::int64_t num_unrefined_ = 0;                 ///< leaves that were left to the sample
};

/// Returns what is asked for beside weights that travel, by the patterns of each mix.
std::vector<std::vector<PatternMix>> tried_mixes(const TuningProblem& problem,
                                                 const SearchOptions& options) {
  const std::vector<const UnitPattern*> patterns =
      options.mix ? patterns_of(*options.mix) : options.patterns;
  std::vector<std::vector<PatternMix>> groups;
  for (PatternMix& mix : possible_mixes(problem, patterns)) {
    if (options.mix && mix != *options.mix) continue;
    const auto group = std::ranges::find_if(groups, [&](const std::vector<PatternMix>& others) {
      return std::ranges::is_permutation(patterns_of(others.front()), patterns_of(mix));
    });
    if (group == groups.end()) {
      groups.push_back({std::move(mix)});
    } else {
      group->push_back(std::move(mix));
    }
  }
  return groups;
}

bool wants_weights(const SearchOptions& options) {
  if (options.mix) return options.mix->empty();
  return std::ranges::find(options.patterns, &weights_travel()) != options.patterns.end();
}

[[noreturn]] void refuse_patterns(const SearchOptions& options, bool ranks_by_time) {
  const std::vector<const UnitPattern*> patterns =
      options.mix ? patterns_of(*options.mix) : options.patterns;
  if (patterns.empty()) throw Error("a search needs patterns to try");
  const UnitPattern& pattern = *patterns.front();
  if (!ranks_by_time) {
    throw InputError("--pattern",
                     fmt::format("\"{}\" is ranked by time on this machine alone", pattern.name()),
                     "Leave out --pareto, --energy-within and --host-slowdown.");
  }
  throw InputError("--pattern",
                   fmt::format("\"{}\" needs several GPUs, no snapshots, and their costs in the "
                               "profile",
                               pattern.name()),
                   std::string(pattern.how_to_profile()));
}

/// Tries the mixes one group after the other, each with the best so far as its limit.
void add_travel(const TuningProblem& problem, Engine& engine, const SearchSpace& space,
                const std::vector<std::vector<PatternMix>>& groups, SearchResult& result) {
  for (const std::vector<PatternMix>& mixes : groups) {
    const Seconds limit = result.best.prediction ? result.best.prediction->step_seconds
                                                 : std::numeric_limits<Seconds>::infinity();
    result.travel.push_back(search_travel(problem, engine, space, limit, mixes));
    if (!result.travel.back().best) continue;
    result.best = *result.travel.back().best;
    result.travel_wins = true;
  }
}

}  // namespace

SearchResult search(const TuningProblem& problem, Engine& engine, const SearchSpace& space,
                    const SearchOptions& options) {
  const Platform& platform = problem.platform;
  if (options.energy_within && !platform.power) {
    throw InputError("platform " + platform.name + ":power", "the platform has no power model",
                     "Calibrate it on a GPU that counts its energy, or rank by time.");
  }
  if (!(options.host_update_slowdown >= 1)) {
    throw Error("host_update_slowdown must be at least 1");
  }
  const Platform slower = with_host_update_slowdown(platform, options.host_update_slowdown);
  const TuningProblem on_slower = problem.on(slower);
  const auto search_weights = [&] { return Search(on_slower, engine, space, options).run(); };
  const bool ranks_by_time =
      !options.front && !options.energy_within && options.host_update_slowdown == 1;
  const auto mixes =
      ranks_by_time ? tried_mixes(problem, options) : std::vector<std::vector<PatternMix>>();
  if (mixes.empty() && !wants_weights(options)) refuse_patterns(options, ranks_by_time);
  if (mixes.empty()) return search_weights();
  SearchResult result;
  std::optional<InfeasibleError> nothing_fits;
  try {
    result = search_weights();
  } catch (const InfeasibleError& error) {
    nothing_fits = error;
  }
  if (!wants_weights(options)) result.best = {};
  add_travel(problem, engine, space, mixes, result);
  if (result.best.prediction) return result;
  if (nothing_fits) throw InfeasibleError(*nothing_fits);
  throw InfeasibleError("no plan with the patterns that were asked for fits",
                        "Leave --pattern out.");
}

}  // namespace athanor
