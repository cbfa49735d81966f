// SPDX-License-Identifier: Apache-2.0
// A model small enough for many runs, and plans for it that differ in everything a plan may choose.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"

#include <vector>

namespace athanor::test {

inline constexpr std::int64_t kSequence = 16;
inline constexpr std::int64_t kVocabulary = 64;

/// Returns a GPT-2 with tied embeddings and some 30,000 parameters.
[[nodiscard]] Architecture tiny_gpt2();
/// Returns a mixture of experts with a dense block, tied weights and a balance loss.
[[nodiscard]] Architecture tiny_mixture(std::int64_t experts = 6);
/// Returns a mixture whose attention and dense block divide among 4 ranks, too.
[[nodiscard]] Architecture divisible_mixture();

/// Returns a llama with biases everywhere, whose tensors divide among 4 ranks.
[[nodiscard]] Architecture tiny_llama();

/// Returns plans with copies of state on the GPU (Snapshot::Copy): some state on the host or none,
/// every sharding and way of clipping, and updates on the host during backward or after it. Some
/// are copied in every other step.
[[nodiscard]] std::vector<Plan> copied_plans(const Architecture& architecture, int world_size,
                                             std::int64_t global_batch, DataType dtype,
                                             AdamState adam_state);

/// Returns plans with clipping that differ in sharding, placement, activations, chunks, slots,
/// buffers and prefetch. `global_batch` micro-batches of one sample are split over the ranks.
[[nodiscard]] std::vector<Plan> varied_plans(const Architecture& architecture, int world_size,
                                             std::int64_t global_batch,
                                             AdamState adam_state = AdamState::Float32);

/// Gives units of experts costs of tokens that travel, which take neither time nor memory.
void add_free_travel(Profile& profile, int world_size, std::int64_t capacity);

/// Lets tokens travel in all units of `plan` with experts alone, and splits the tensors of all that
/// can be split, where `profile` has their costs. The placement of both is `run`, and the capacity
/// that of `profile`.
void let_activations_travel(Plan& plan, const Profile& profile, ChunkRun run,
                            Sharding sharding = Sharding::OptimizerSharded);

/// Returns plans for a model with split blocks: weights travel in the first, and in all others
/// tokens do, or tensors are split.
[[nodiscard]] std::vector<Plan> travelling_plans(const Profile& profile, int world_size,
                                                 std::int64_t global_batch);

/// Returns a plan that treats every unit alike.
[[nodiscard]] Plan uniform_plan(const Architecture& architecture, int world_size,
                                std::int64_t accumulation, Sharding sharding, Home parameters,
                                Home optimizer, Activation activation, std::int64_t chunk_elements,
                                AdamState adam_state = AdamState::Float32);

}  // namespace athanor::test
