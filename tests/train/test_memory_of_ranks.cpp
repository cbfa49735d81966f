// SPDX-License-Identifier: Apache-2.0
// Ranks of several machines agree on the newest step that all of them can have.
#include "executor/snapshot/memory_of_ranks.hpp"
#include "executor/snapshot/peer_ranks.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>
#include <vector>

namespace {

using namespace athanor;

constexpr int kRanks = 4, kMachineRanks = 2;

int peer_of(int rank) { return peer_ranks(rank, kRanks, kMachineRanks).peer; }
int no_peer(int) { return -1; }

/// Ranks that have `steps`, and copies of their wards' last two versions.
std::vector<RankFinding> findings_at(std::int64_t steps) {
  std::vector<RankFinding> findings;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::int64_t ward = peer_ranks(rank, kRanks, kMachineRanks).ward;
    findings.push_back({.steps = steps,
                        .layout = 7,
                        .copies = {steps - 1, steps},
                        .owners = {ward, ward},
                        .is_held = 0});
  }
  return findings;
}

void lose_machine(std::vector<RankFinding>& findings, int machine) {
  for (int place = 0; place < kMachineRanks; ++place) {
    findings.at(static_cast<std::size_t>(machine * kMachineRanks + place)) = {};
  }
}

}  // namespace

TEST_CASE("every rank has one peer and one ward, on another machine") {
  for (int machines = 2; machines <= 9; ++machines) {
    for (int each = 1; each <= 3; ++each) {
      const int world = machines * each;
      std::set<int> peers;
      for (int rank = 0; rank < world; ++rank) {
        const PeerRanks ranks = peer_ranks(rank, world, each);
        CHECK(ranks.peer / each != rank / each);
        CHECK(ranks.peer % each == rank % each);
        CHECK(peer_ranks(ranks.peer, world, each).ward == rank);
        CHECK(peer_ranks(ranks.ward, world, each).peer == rank);
        peers.insert(ranks.peer);
        if (machines % 2 == 0) CHECK(ranks.peer == ranks.ward);
      }
      CHECK(static_cast<int>(peers.size()) == world);
    }
  }
  CHECK_THROWS_AS(peer_ranks(0, 4, 4), InputError);
  CHECK_THROWS_AS(peer_ranks(0, 4, 3), InputError);
  CHECK_THROWS_AS(peer_ranks(0, 4, 0), InputError);
}

TEST_CASE("a machine that has lost its memory gets the newest version of which there are copies") {
  std::vector<RankFinding> findings = findings_at(9);
  CHECK(combine_findings(findings, no_peer).memory->steps == 9);
  CHECK(combine_findings(findings, no_peer).memory->lost.empty());
  lose_machine(findings, 1);
  const FoundMemory found = combine_findings(findings, peer_of);
  REQUIRE(found.memory);
  CHECK(found.memory->steps == 9);
  CHECK(found.memory->lost == std::vector<bool>{false, false, true, true});
  CHECK(found.memory->layouts == std::vector<std::uint64_t>{7, 7});

  SECTION("the newest copy is older than the version of the rank that keeps it") {
    findings[0].copies = {8, RankFinding::kNothing};
    CHECK(combine_findings(findings, peer_of).memory->steps == 8);
  }
  SECTION("one rank is a step behind") {
    findings[0].steps = 8;
    CHECK(combine_findings(findings, peer_of).memory->steps == 8);
  }
  SECTION("a copy of that step was written over") {
    findings[0].steps = 8;
    findings[1].copies = {9, RankFinding::kNothing};
    CHECK(combine_findings(findings, peer_of).problem.find("copy of rank 3") != std::string::npos);
  }
  SECTION("the copy is of another rank") {
    findings[0].owners = {1, 1};
    CHECK_FALSE(combine_findings(findings, peer_of).memory);
  }
  SECTION("the replacement has old memory of the same run") {
    findings[2].steps = 3;
    const FoundMemory again = combine_findings(findings, peer_of);
    REQUIRE(again.memory);
    CHECK(again.memory->steps == 9);
    CHECK(again.memory->lost == std::vector<bool>{false, false, true, true});
  }
}

TEST_CASE("ranks that keep one version of some steps are a whole version behind, and not lost") {
  constexpr std::int64_t kEvery = 4;
  std::vector<RankFinding> findings = findings_at(12);
  for (RankFinding& finding : findings) {
    finding.every = kEvery;
    finding.copies = {8, 12};
  }
  lose_machine(findings, 1);
  findings[0].steps = 8;
  const FoundMemory found = combine_findings(findings, peer_of);
  REQUIRE(found.memory);
  CHECK(found.memory->steps == 8);
  CHECK(found.memory->lost == std::vector<bool>{false, false, true, true});
  findings[0].steps = 4;  // an earlier process's
  CHECK_FALSE(combine_findings(findings, no_peer).memory);
}

TEST_CASE("lost memory without a copy is said, and so is a run that goes on") {
  std::vector<RankFinding> findings = findings_at(5);
  lose_machine(findings, 0);
  const FoundMemory lost = combine_findings(findings, no_peer);
  CHECK_FALSE(lost.memory);
  CHECK(lost.problem == "the memory of rank 0 is lost, and no other machine has a copy of it");
  lose_machine(findings, 1);
  const FoundMemory nothing = combine_findings(findings, peer_of);
  CHECK_FALSE(nothing.memory);
  CHECK(nothing.problem.empty());
  findings[3].is_held = 1;
  CHECK(combine_findings(findings, peer_of).is_held);
}
