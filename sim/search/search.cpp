// SPDX-License-Identifier: Apache-2.0
#include "sim/search/search.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/cost/scaling.hpp"
#include "sim/model/memory.hpp"
#include "sim/search/candidate_evaluator.hpp"
#include "sim/search/candidate_groups.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/infeasibility_advice.hpp"
#include "sim/search/pareto.hpp"
#include "sim/search/ranking.hpp"
#include "sim/search/worker_pool.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Room for the engine's rounding when a bound is compared with a simulated time.
constexpr double kBoundSlack = 1 - 1e-6;

/// Candidates that are looked at before the best so far is asked again.
constexpr std::size_t kRound = 32;
/// Fewer candidates are done before processes have started.
constexpr std::size_t kMinCandidatesForWorkers = 64;

/// Candidates that may be among the best, by what bounds them.
struct Node {
  RankKey key;
  std::size_t position = 0;  ///< of what is known of them
  SearchLevel scope = SearchLevel::Leaf;
  bool in_order = false;
  bool is_refined = false;  ///< by lowering it
  auto operator<=>(const Node& other) const { return key <=> other.key; }
  bool operator==(const Node& other) const { return key == other.key; }
};

class Search {
 public:
  /// `platform` has the slower updates of `options`, and `engine` simulates it without.
  Search(const Profile& profile, const Platform& platform, Engine& engine, const SearchSpace& space,
         const PlanRequest& request, const SearchOptions& options)
      : profile_(profile),
        platform_(platform),
        request_(request),
        options_(options),
        limits_(effective_limits(request, platform)),
        ranks_per_node_(platform.ranks_per_node(request.num_gpus)),
        space_(space),
        groups_(space, profile.architecture, request.num_gpus),
        estimator_(profile, platform, request, space.adam_threads),
        evaluator_(profile, platform, engine, request, space.adam_threads,
                   options.host_update_slowdown),
        keep_(static_cast<std::size_t>(std::max(1, options.keep))) {}

  SearchResult run() {
    collect();
    if (options_.front && !queue_.empty()) start_front();
    simulate_promising();
    if (num_simulated_ == 0) throw_infeasible();
    return rank();
  }

 private:
  void report(const char* stage, std::int64_t done, std::size_t total) const {
    if (options_.progress) options_.progress(stage, done, static_cast<std::int64_t>(total));
  }

  /// Memory and a first bound of every group, in closed form.
  void collect() {
    std::int64_t index = 0, done = 0;
    std::size_t total = 0;
    groups_.for_each([&](const Candidate&) { ++total; });
    groups_.for_each([&](const Candidate& representative) {
      report("bounding", done++, total);
      Evaluated e;
      const bool does_fit = check_memory(representative, e);
      if (does_fit) e.bound_seconds = estimator_.bound_seconds(representative, SearchLevel::Group);
      const bool may_reorder =
          std::isinf(space_.max_cpu_seconds_per_element) ||
          (does_fit && e.bound_seconds <= space_.max_cpu_seconds_per_element *
                                              estimator_.host_elements(representative));
      const CandidateSet group = groups_.whole(representative, /*in_order=*/!may_reorder);
      if (group.plans == 0) return;
      e.candidate = group.candidate;
      e.plans = group.plans;
      e.index = std::exchange(index, index + e.plans);
      all_.push_back(std::move(e));
      push(all_.size() - 1, group);
    });
  }

  /// What `candidate` needs, into `e`. Whether it fits.
  bool check_memory(const Candidate& candidate, Evaluated& e) {
    e.peak_bytes = estimator_.peak_bytes(candidate);
    const auto overflows = memory_overflows(e.peak_bytes, ranks_per_node_, limits_);
    e.outcome = overflows.empty() ? Outcome::Pruned : Outcome::DoesNotFit;
    if (!overflows.empty()) {
      e.reason = fmt::format("does not fit: {}", fmt::join(overflows, "; "));
    }
    return overflows.empty();
  }

  /// To the queue, where what is at `position`, all of `set`, fits.
  void push(std::size_t position, const CandidateSet& set) {
    const Evaluated& e = all_[position];
    if (e.outcome == Outcome::DoesNotFit) return;
    queue_.push({rank_key(e, e.bound_seconds), position, set.scope, set.in_order, false});
  }

  /// Bounds those that were bounded together in smaller sets, down to one. What that rules out
  /// stays together.
  void branch(const Node& entry) {
    const Evaluated whole = all_[entry.position];
    const Seconds pruned = cutoff();
    Evaluated after_barrier = whole;
    after_barrier.plans = 0;
    after_barrier.bound_seconds = Estimator::kNever;
    std::vector<std::pair<Evaluated, CandidateSet>> promising;
    for (const CandidateSet& part :
         groups_.parts({whole.candidate, entry.scope, entry.in_order, whole.plans, /*first=*/0})) {
      Evaluated e = bounded(part, whole, pruned);
      if (e.bound_seconds > pruned) {
        after_barrier.plans += e.plans;
        after_barrier.bound_seconds = std::min(after_barrier.bound_seconds, e.bound_seconds);
      } else {
        promising.emplace_back(std::move(e), part);
      }
    }
    std::size_t position = entry.position;
    const auto put = [&](Evaluated e) {
      if (position == all_.size()) all_.emplace_back();
      all_[position] = std::move(e);
      return std::exchange(position, all_.size());
    };
    if (after_barrier.plans > 0) put(std::move(after_barrier));
    for (auto& [e, part] : promising) push(put(std::move(e)), part);
  }

  [[nodiscard]] Evaluated bounded(const CandidateSet& part, const Evaluated& whole,
                                  Seconds cutoff) {
    Evaluated e;
    e.candidate = part.candidate;
    e.plans = part.plans;
    e.index = whole.index + part.first;
    if (!check_memory(e.candidate, e)) return e;
    e.bound_seconds =
        std::max(whole.bound_seconds, estimator_.bound_seconds(e.candidate, part.scope, cutoff));
    return e;
  }

  void start_front() {
    std::vector<TierBytes> fitting;
    for (const Evaluated& e : all_) {
      if (e.outcome != Outcome::DoesNotFit) fitting.push_back(e.peak_bytes);
    }
    resolution_ = complete_resolution(*options_.front, fitting, ranks_per_node_);
    front_.emplace(resolution_, ranks_per_node_);
  }

  /// In ascending order of bound, but for those whose bound is beaten by plans that are kept: the
  /// bound of several is replaced by bounds of fewer, that of one by that of its lowered program,
  /// and that by its simulation. Rounds of one size make the answer the same for any number of
  /// workers.
  void simulate_promising() {
    const auto promising = queue_.size();
    const int workers = options_.workers > 0 ? options_.workers : usable_cores();
    std::optional<WorkerPool> pool;
    if (workers > 1 && promising > kMinCandidatesForWorkers) {
      pool.emplace(workers, [this](const Job& job) { return evaluator_.evaluate(job); });
    }
    for (std::vector<Job> round = next_round(); !round.empty(); round = next_round()) {
      report("simulating", num_simulated_, all_.size());
      if (pool) {
        const std::vector<JobResult> results = pool->run(round);
        for (std::size_t i = 0; i < round.size(); ++i) take(round[i], results[i]);
      } else {
        for (const Job& job : round) take(job, evaluator_.evaluate(job));
      }
    }
  }

  [[nodiscard]] std::vector<Job> next_round() {
    std::vector<Job> round;
    std::vector<Node> waiting;  // for what is refined in this round
    while (round.size() < kRound && !queue_.empty()) {
      const Node first = queue_.top();
      const Evaluated& e = all_[first.position];
      const bool pruned = is_pruned(e);
      if (pruned && !front_) break;  // and so are all that follow
      queue_.pop();
      if (pruned) continue;
      if (first.scope != SearchLevel::Leaf) {
        branch(first);
        continue;
      }
      const auto known = refined_.find(with_any_threads(e.candidate));
      if (first.is_refined || (known == refined_.end() && !refinement_pays())) {
        round.push_back({static_cast<std::int64_t>(first.position), e.candidate, true});
      } else if (known == refined_.end()) {
        refined_.emplace(with_any_threads(e.candidate), std::nullopt);
        round.push_back({static_cast<std::int64_t>(first.position), e.candidate, false});
      } else if (known->second) {
        refine(first.position, *known->second);
      } else {
        waiting.push_back(first);
      }
    }
    for (const Node& entry : waiting) queue_.push(entry);
    return round;
  }

  static Candidate with_any_threads(Candidate candidate) {
    candidate.adam_threads = 0;
    return candidate;
  }

  void refine(std::size_t position, Seconds bound) {
    Evaluated& e = all_[position];
    e.bound_seconds = std::max(e.bound_seconds, bound);
    queue_.push({rank_key(e, e.bound_seconds), position, SearchLevel::Leaf, false, true});
  }

  /// The bound of a lowered program costs about as much as its simulation, and in some spaces it is
  /// hardly ever above the first one: there only a sample is refined.
  [[nodiscard]] bool refinement_pays() {
    constexpr std::int64_t kPaying = 4, kSample = 8;  // one of so many
    if (num_refined_ < static_cast<std::int64_t>(kRound)) return true;
    return kPaying * num_raised_ >= num_refined_ || ++num_unrefined_ % kSample == 0;
  }

  void take(const Job& job, const JobResult& result) {
    Evaluated& e = all_[static_cast<std::size_t>(job.index)];
    if (!job.simulate) {
      ++num_refined_;
      num_raised_ += result.seconds * kBoundSlack > e.bound_seconds ? 1 : 0;
      refined_[with_any_threads(job.candidate)] = result.seconds;
      refine(static_cast<std::size_t>(job.index), result.seconds);
      return;
    }
    e.step_seconds = result.seconds;
    e.step_joules = result.joules;
    e.outcome = Outcome::Simulated;
    e.bottleneck = result.bottleneck.data();
    const RankKey key = rank_key(e, e.step_seconds);
    kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), key), key);
    if (kept_.size() > keep_) kept_.pop_back();
    if (front_) front_->add(e);
    ++num_simulated_;
  }

  /// Whether `keep` plans are faster than `e` can be, it is too slow to save energy, and one of the
  /// front is better.
  [[nodiscard]] bool is_pruned(const Evaluated& e) const {
    const Seconds seconds = e.bound_seconds * kBoundSlack;
    return kept_.size() == keep_ && rank_key(e, seconds) > kept_.back() && seconds > slowest() &&
           (!front_ || front_->beats(e, seconds));
  }

  /// What is above is beaten.
  [[nodiscard]] Seconds cutoff() const {
    if (front_ || kept_.size() < keep_) return Estimator::kNever;
    return std::max(std::get<Seconds>(kept_.back()), slowest()) / kBoundSlack;
  }

  /// Up to which step time energy decides; 0 where it does not.
  [[nodiscard]] Seconds slowest() const {
    if (!options_.energy_within || kept_.empty()) return 0;
    return std::get<Seconds>(kept_.front()) * *options_.energy_within;
  }

  SearchResult rank() {
    std::ranges::sort(all_, [slowest = slowest()](const Evaluated& a, const Evaluated& b) {
      return ranks_before(a, b, slowest);
    });
    SearchResult result;
    const Evaluated& best = all_.front();
    for (Evaluated& e : all_) {
      result.num_simulated += e.outcome == Outcome::Simulated ? 1 : 0;
      result.num_pruned += e.outcome == Outcome::Pruned ? e.plans : 0;
      result.num_not_fitting += e.outcome == Outcome::DoesNotFit ? e.plans : 0;
      if (&e != &best && e.outcome != Outcome::DoesNotFit) e.reason = why_not_best(e, best);
    }
    result.best = make_plan(best.candidate, profile_, request_);
    const bool as_measured = options_.host_update_slowdown == 1;
    result.best.prediction = Prediction{
        as_measured ? best.step_seconds : evaluator_.step_seconds_as_measured(best.candidate),
        best.peak_bytes};
    if (front_) {
      result.front = front_->plans();
      result.front_resolution = resolution_;
    }
    result.ranked = std::move(all_);
    return result;
  }

  [[noreturn]] void throw_infeasible() {
    std::vector<TierBytes> peaks;
    for (const Evaluated& e : all_) {
      const std::vector<Candidate> members = groups_.members(e.candidate);
      const auto has_its_memory = [&](Candidate member) {
        member.adam_threads = e.candidate.adam_threads;
        return member == e.candidate;
      };
      if (std::ranges::any_of(members, has_its_memory)) {
        peaks.push_back(e.peak_bytes);  // and the others need no less
      } else {
        for (const Candidate& member : members) peaks.push_back(estimator_.peak_bytes(member));
      }
    }
    throw InfeasibleError(no_plan_fits(peaks, profile_, platform_, request_));
  }

  const Profile& profile_;
  const Platform& platform_;
  const PlanRequest& request_;
  const SearchOptions& options_;
  MemoryLimits limits_;
  int ranks_per_node_;
  const SearchSpace& space_;
  CandidateGroups groups_;
  Estimator estimator_;
  CandidateEvaluator evaluator_;
  std::size_t keep_;
  std::vector<Evaluated> all_;
  std::priority_queue<Node, std::vector<Node>, std::greater<>> queue_;
  /// Bounds of lowered programs, by the candidate with_any_threads; none: not known yet.
  std::map<Candidate, std::optional<Seconds>> refined_;
  std::vector<RankKey> kept_;  ///< of the best so far, ascending
  std::optional<ParetoFront> front_;
  FrontResolution resolution_;
  std::int64_t num_simulated_ = 0;
  std::int64_t num_refined_ = 0, num_raised_ = 0;  ///< of these, with a better bound
  std::int64_t num_unrefined_ = 0;                 ///< that could have been
};

}  // namespace

SearchResult search(const Profile& profile, const Platform& platform, Engine& engine,
                    const SearchSpace& space, const PlanRequest& request,
                    const SearchOptions& options) {
  validate_request(request, profile, platform);
  if (options.energy_within && !platform.power) {
    throw InputError("platform " + platform.name + ":power", "the platform has no power model",
                     "Calibrate it on a GPU that counts its energy, or rank by time.");
  }
  if (!(options.host_update_slowdown >= 1)) throw Error("slower_updates must be at least 1");
  const Platform slower = with_host_update_slowdown(platform, options.host_update_slowdown);
  return Search(profile, slower, engine, space, request, options).run();
}

}  // namespace athanor
