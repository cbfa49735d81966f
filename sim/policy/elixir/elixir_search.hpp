// SPDX-License-Identifier: Apache-2.0
// Elixir's published search ("optimal") in its own terms: parameters, chunks and cache blocks.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/policy/elixir/elixir_constants.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace athanor::elixir {

/// Input of the search. Sizes are in elements of the parameters' type unless said otherwise.
struct SearchInput {
  int num_gpus = 1;
  DataType dtype = DataType::BFloat16;  ///< Elixir knows fp16, which is as large
  Bytes gpu_memory = 0;                 ///< memory of one GPU
  Bytes driver_memory = kDriverReserve;
  Bytes buffers = 0;                     ///< bytes of the model's buffers, which are not parameters
  Bytes activations = 0;                 ///< bytes at their peak
  std::vector<std::int64_t> parameters;  ///< in the order of first use
  std::vector<bool> fused;               ///< by parameter: whether several modules use it
  std::vector<std::vector<int>> trace;   ///< parameters of each operation of one step, in order
  std::int64_t largest_module = 0;       ///< parameter elements of one module: the buffer store
  std::int64_t largest_region = 0;       ///< parameter elements of one recomputed region; 0 = none
  Rates rates = published_rates(1);
  Bytes smallest_chunk = kSmallestChunk;
};

struct SearchResult {
  std::int64_t chunk_elements = 0;
  std::int64_t num_blocks = 0;    ///< blocks that the cache holds
  std::vector<int> chunk_of;      ///< by parameter; -1 = fused: has its own chunk and block
  std::vector<Home> chunk_homes;  ///< by chunk: home of its shards of parameters and state
  std::vector<Home> fused_homes;  ///< by fused parameter in order: home, as for chunks
  bool operator==(const SearchResult&) const = default;
};

/// Runs the search:
/// 1. Memory for blocks and resident chunks is the GPU's, less fixed margins, the largest module's
///    parameters (they are copied before use) and fused parameters (their blocks stay).
/// 2. The chunk size is the one that moves the fewest bytes per step under Belady's rule, if all
///    memory is cache. It lies between `smallest_chunk`, or the power of two times it that holds
///    the largest parameter, and three times that. Parameters are packed whole, in the order of
///    use.
/// 3. `rates` decide whether the cache keeps these blocks, or only as many as computing needs.
/// 4. Chunks go to the GPU, parameters and optimizer state together, in the order of use, while
///    they fit; others to the host. Fused parameters come last.
/// 5. If the cache did not come first, it gets the remaining memory, up to the blocks of step 2.
///
/// Elixir counts no host memory and predicts no time. Its loop over chunk sizes never ends once a
/// size leaves no block besides the two set aside; here that size and larger ones are left out.
/// Returns nothing where no size is left, and where Elixir stops with an error.
/// Source: hpcaitech/Elixir e9ccbd9, elixir/search and src/simulator.cpp.
[[nodiscard]] std::optional<SearchResult> search(const SearchInput& input);

}  // namespace athanor::elixir
