// SPDX-License-Identifier: Apache-2.0
// A job whose ranks meet and part: `meeting_worker --nproc N`, or one rank by its environment.
// Rank 0 prints what it has heard from all.
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/rendezvous/rank_launcher.hpp"
#include "executor/rendezvous/rank_store.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <span>
#include <string>

namespace {

constexpr const char* kArrived = "arrived";
constexpr const char* kHeard = "heard";

int meet(const athanor::RankInfo& rank) {
  const auto store = athanor::join_rank_store(rank);
  if (store->add(kArrived, 1) == rank.world_size) store->set(kHeard, "all");
  store->wait({kHeard});
  // Rank 0 keeps the store, and nobody may go before the others have read it.
  store->add("leaving", 1);
  if (rank.rank != 0) return athanor::kExitDone;
  while (store->add("leaving", 0) < rank.world_size) {
  }
  fmt::print("{} ranks met{}\n", store->add(kArrived, 0),
             std::getenv(athanor::kListenDescriptor) == nullptr ? "" : ", descriptor left");
  return athanor::kExitDone;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  return athanor::run_main("meeting_worker", [&] {
    const athanor::RankInfo rank = athanor::rank_from_environment();
    if (rank.world_size > 1 || words.size() < 3) return meet(rank);
    return athanor::run_ranks(std::atoi(words[2]), words).exit_code;
  });
}
