// SPDX-License-Identifier: Apache-2.0
// Random machines, and random small questions to the tuner: a model, a request and a space.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/search/space/candidate_groups.hpp"

#include <random>
#include <vector>

namespace athanor::test {

/// Makes a machine of one node or two. Any lane may be the bottleneck. Copies and CPU Adam contend
/// more or less, through shared resources or as if measured.
[[nodiscard]] Platform random_machine(std::mt19937& random, int num_gpus);
/// Returns the machine with copies that contend with kernels and fetches, and contend more where
/// they add, as if measured on each of `num_gpus`.
[[nodiscard]] Platform with_adding_copies(std::mt19937& random, Platform platform, int num_gpus);

struct Question {
  Profile profile;
  PlanRequest request;
  SearchSpace space;
};

/// The device memory limit may rule out none, some or all of the space.
[[nodiscard]] Question random_question(std::mt19937& random, int num_gpus);

/// Returns the question about the same model with split blocks. Attention may stay on the GPU.
[[nodiscard]] Question with_split_blocks(Question question);

/// Returns the question with twice as many sequences a step, in four micro-batches of one each.
/// They may also run in two groups of two, unless a unit of the model borrows parameters.
[[nodiscard]] Question with_four_micro_batches(Question question);

/// Returns the question about plans of a larger model that take snapshots, by a redo log or by
/// versions. Host memory may rule out none, some or all of them.
[[nodiscard]] Question with_snapshots(std::mt19937& random, Question question);

/// Memory of lowered programs of candidates; the references outlive the result.
[[nodiscard]] MemoryCheck memory_of(const Question& question, const Platform& platform);

/// One simulated candidate that fits.
struct Simulated {
  Candidate candidate;
  std::int64_t index = 0;  ///< in the order of enumeration
  Seconds step_seconds = 0;
  Bytes bytes = 0;  ///< in all tiers
  double step_joules = 0;
};

/// Every candidate that fits, simulated one by one, best first: the order that search promises.
[[nodiscard]] std::vector<Simulated> simulate_all(const Question& question,
                                                  const Platform& platform, Engine& engine);

/// `lane` does everything `factor` times as fast, and asks for as much more of what it shares.
void speed_up(Platform& platform, Lane lane, double factor);

}  // namespace athanor::test
