// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/belady.hpp"

#include <set>
#include <unordered_map>
#include <utility>

namespace athanor {
namespace {

/// Position of the next use of the block used at each position; the trace's length if there is
/// none.
std::vector<std::size_t> next_uses(const std::vector<int>& trace) {
  std::vector<std::size_t> next(trace.size());
  std::unordered_map<int, std::size_t> seen;
  for (std::size_t i = trace.size(); i-- > 0;) {
    const auto found = seen.find(trace[i]);
    next[i] = found == seen.end() ? trace.size() : found->second;
    seen[trace[i]] = i;
  }
  return next;
}

}  // namespace

std::int64_t belady_misses(const std::vector<int>& trace, std::int64_t num_blocks) {
  const std::vector<std::size_t> next = next_uses(trace);
  std::set<std::pair<std::size_t, int>> resident;  // next use, block
  std::int64_t misses = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const auto hit = resident.find({i, trace[i]});
    if (hit != resident.end()) {
      resident.erase(hit);
    } else {
      ++misses;
      if (static_cast<std::int64_t>(resident.size()) >= num_blocks) {
        resident.erase(std::prev(resident.end()));
      }
    }
    resident.insert({next[i], trace[i]});
  }
  return misses;
}

}  // namespace athanor
