// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/memory_of_ranks.hpp"

#include "executor/memory/shared_memory.hpp"
#include "executor/snapshot/snapshot_reader.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/snapshot_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace athanor {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Copies of one rank's versions, by their steps.
std::vector<std::int64_t> copies_of(int rank, int peer, const std::vector<RankFinding>& findings) {
  std::vector<std::int64_t> copies;
  if (peer < 0) return copies;
  const RankFinding& kept = findings[index(peer)];
  for (std::size_t i = 0; i < kept.copies.size(); ++i) {
    if (kept.owners[i] == rank && kept.copies[i] >= 0) copies.push_back(kept.copies[i]);
  }
  return copies;
}

FoundMemory problem(std::string text) { return {std::nullopt, std::move(text), false}; }

/// Memory that this rank's machine holds for it. `text` and `trouble` are empty without one.
struct OwnMemory {
  RankFinding finding;
  std::string text, trouble;
};

OwnMemory look(const std::string& folder, const std::string& run, int rank, int world_size) {
  OwnMemory own;
  const std::vector<RankMemory> files = list_rank_memory(folder, run);
  const auto file = std::ranges::find(files, rank, &RankMemory::rank);
  if (file == files.end()) return own;
  try {
    if (is_held(file->path, kEndOfProcess)) {
      own.finding.is_held = 1;
      own.trouble = file->path + " is in use by a living process";
      return own;
    }
    const SnapshotSummary summary = read_snapshot_summary(file->path);
    if (summary.run != run || summary.rank != rank || summary.world_size != world_size) {
      throw Error(fmt::format("{} says that it is of rank {} of {} of run {}", file->path,
                              summary.rank, summary.world_size, summary.run));
    }
    own.finding.steps = summary.steps;
    own.finding.every = summary.every;
    own.finding.layout = summary.layout;
    for (std::size_t i = 0; i < std::min(summary.copies.size(), own.finding.copies.size()); ++i) {
      own.finding.copies[i] = summary.copies[i].steps;
      own.finding.owners[i] = summary.copies[i].owner;
    }
    own.text = summary.text;
  } catch (const Error& error) {
    own.trouble = error.what();
  }
  return own;
}

template <typename Value>
std::vector<Value> gather(const Value& own, Collectives& ranks) {
  std::vector<Value> all(index(ranks.world_size()));
  all[index(ranks.rank())] = own;
  ranks.all_gather(all.data(), sizeof(Value));
  return all;
}

/// Returns the text of rank `source`, on every rank.
std::string text_of(int source, const std::string& own, Collectives& ranks) {
  const auto part = static_cast<std::size_t>(snapshot_header_bytes());
  std::vector<char> all(part * index(ranks.world_size()));
  if (ranks.rank() == source) own.copy(all.data() + part * index(source), part - 1);
  ranks.all_gather(all.data(), snapshot_header_bytes());
  return all.data() + part * index(source);
}

}  // namespace

/// The rules by which the newest common step is whole are those of versions and of a redo log: all
/// newest marks and copies are of that step or of the next one (README).
FoundMemory combine_findings(const std::vector<RankFinding>& findings,
                             const std::function<int(int rank)>& peer_of) {
  if (std::ranges::any_of(findings, [](const RankFinding& f) { return f.is_held != 0; })) {
    return {std::nullopt, "a living process holds the memory of one of its ranks", true};
  }
  const RankFinding& last = std::ranges::max(findings, {}, &RankFinding::steps);
  if (last.steps < 0) return {};
  // Newest marks are of one version or of two in a row: what is older was left behind by an earlier
  // process.
  const std::int64_t oldest = std::max<std::int64_t>(0, last.steps - last.every);
  const auto has_own = [oldest](const RankFinding& finding) { return finding.steps >= oldest; };
  RunMemory found{.steps = std::numeric_limits<std::int64_t>::max(),
                  .world_size = static_cast<int>(findings.size()),
                  .layouts = {},
                  .lost = {},
                  .text = {}};
  for (int rank = 0; rank < found.world_size; ++rank) {
    const RankFinding& own = findings[index(rank)];
    found.lost.push_back(!has_own(own));
    if (has_own(own)) {
      found.layouts.push_back(own.layout);
      found.steps = std::min(found.steps, own.steps);
      continue;
    }
    const std::vector<std::int64_t> copies = copies_of(rank, peer_of(rank), findings);
    if (copies.empty()) {
      return problem(fmt::format(
          "the memory of rank {} is lost, and no other machine has a copy of it", rank));
    }
    found.steps = std::min(found.steps, std::ranges::max(copies));
  }
  for (int rank = 0; rank < found.world_size; ++rank) {
    if (!found.lost[index(rank)]) continue;
    const std::vector<std::int64_t> copies = copies_of(rank, peer_of(rank), findings);
    if (std::ranges::find(copies, found.steps) == copies.end()) {
      return problem(
          fmt::format("the copy of rank {} is of step {}, and others have no more than "
                      "step {}",
                      rank, std::ranges::max(copies), found.steps));
    }
  }
  if (std::ranges::find(found.lost, true) == found.lost.end()) found.lost.clear();
  return {std::move(found), "", false};
}

FoundMemory find_memory_of_ranks(const std::string& folder, const std::string& run,
                                 const std::function<int(int rank)>& peer_of, Collectives& ranks) {
  const OwnMemory own = look(folder, run, ranks.rank(), ranks.world_size());
  const std::vector<RankFinding> findings = gather(own.finding, ranks);
  FoundMemory found = combine_findings(findings, peer_of);
  if (!own.trouble.empty()) found.problem += (found.problem.empty() ? "" : "; ") + own.trouble;
  const auto first = std::ranges::find_if(findings, [](const auto& f) { return f.steps >= 0; });
  if (first == findings.end()) return found;
  std::string text = text_of(static_cast<int>(first - findings.begin()), own.text, ranks);
  if (found.memory) found.memory->text = std::move(text);
  return found;
}

}  // namespace athanor
