// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/elixir/belady.hpp"

#include <cassert>
#include <set>
#include <unordered_map>
#include <utility>

namespace athanor {
namespace {

/// Returns the position of the next use of each block of each set, or the trace's length if there
/// is none.
std::vector<std::vector<std::size_t>> next_uses(const std::vector<std::vector<int>>& trace) {
  std::vector<std::vector<std::size_t>> next(trace.size());
  std::unordered_map<int, std::size_t> seen;
  for (std::size_t i = trace.size(); i-- > 0;) {
    for (const int block : trace[i]) {
      const auto found = seen.find(block);
      next[i].push_back(found == seen.end() ? trace.size() : found->second);
      seen[block] = i;
    }
  }
  return next;
}

}  // namespace

std::int64_t belady_misses(const std::vector<std::vector<int>>& trace, std::int64_t num_blocks) {
  const auto next = next_uses(trace);
  std::set<std::pair<std::size_t, int>> resident;  // next use, block
  std::int64_t misses = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::vector<int>& blocks = trace[i];
    assert(static_cast<std::int64_t>(blocks.size()) <= num_blocks);
    // Resident blocks of this set leave and return with their next use, so none of them is evicted.
    std::int64_t missing = 0;
    for (const int block : blocks) missing += resident.erase({i, block}) == 0 ? 1 : 0;
    const auto room = num_blocks - static_cast<std::int64_t>(blocks.size());
    while (static_cast<std::int64_t>(resident.size()) > room) {
      resident.erase(std::prev(resident.end()));
    }
    misses += missing;
    for (std::size_t k = 0; k < blocks.size(); ++k) resident.insert({next[i][k], blocks[k]});
  }
  return misses;
}

}  // namespace athanor
