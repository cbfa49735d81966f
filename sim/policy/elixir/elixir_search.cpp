// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/elixir/elixir_search.hpp"

#include "sim/policy/elixir/belady.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>

namespace athanor::elixir {
namespace {

/// Chunk sizes to try, in elements.
struct ChunkRange {
  std::int64_t smallest = 0, largest = 0, step = 1;
};

struct ChunkChoice {
  std::int64_t elements = 0, num_blocks = 0;
};

std::int64_t public_elements(const SearchInput& in) {
  std::int64_t sum = 0;
  for (std::size_t p = 0; p < in.parameters.size(); ++p) sum += in.fused[p] ? 0 : in.parameters[p];
  return sum;
}

std::int64_t fused_elements(const SearchInput& in) {
  return std::accumulate(in.parameters.begin(), in.parameters.end(), std::int64_t{0}) -
         public_elements(in);
}

std::int64_t largest_public(const SearchInput& in) {
  std::int64_t largest = 0;
  for (std::size_t p = 0; p < in.parameters.size(); ++p) {
    if (!in.fused[p]) largest = std::max(largest, in.parameters[p]);
  }
  return largest;
}

/// Returns the elements that are free for cache and chunks; negative where the margins alone take
/// more than there is.
std::int64_t free_elements(const SearchInput& in) {
  const double bytes =
      kUsableFraction * (static_cast<double>(in.gpu_memory - in.driver_memory - in.buffers) -
                         kActivationMargin * static_cast<double>(in.activations));
  if (bytes < 0) return -1;
  return static_cast<std::int64_t>(bytes) / size_of(in.dtype) - in.largest_module -
         fused_elements(in);
}

ChunkRange chunk_range(const SearchInput& in) {
  const Bytes element = size_of(in.dtype);
  Bytes smallest = in.smallest_chunk;
  while (smallest < largest_public(in) * element) smallest *= 2;
  const auto num_public = static_cast<std::uint64_t>(std::ranges::count(in.fused, false));
  const std::int64_t trials =
      kSearchWork / static_cast<std::int64_t>(2 * std::bit_ceil(num_public));
  const Bytes range = (kChunkRange - 1) * smallest;
  const Bytes step =
      trials > range / kSmallestStep ? kSmallestStep : range / std::max<std::int64_t>(1, trials);
  return {smallest / element, kChunkRange * smallest / element, step / element};
}

/// Returns the chunk of each parameter, -1 for fused ones. Every parameter fits a chunk.
std::vector<int> pack(const SearchInput& in, std::int64_t chunk_elements) {
  std::vector<int> chunk_of(in.parameters.size(), -1);
  int chunk = -1;
  std::int64_t left = 0;
  for (std::size_t p = 0; p < in.parameters.size(); ++p) {
    if (in.fused[p]) continue;
    if (in.parameters[p] > left) {
      ++chunk;
      left = chunk_elements;
    }
    left -= in.parameters[p];
    chunk_of[p] = chunk;
  }
  return chunk_of;
}

int num_chunks(const std::vector<int>& chunk_of) {
  return chunk_of.empty() ? 0 : *std::ranges::max_element(chunk_of) + 1;
}

/// Returns the chunks that each operation needs. Operations that need none are left out.
std::vector<std::vector<int>> chunk_trace(const SearchInput& in, const std::vector<int>& chunk_of) {
  std::vector<std::vector<int>> trace;
  for (const std::vector<int>& parameters : in.trace) {
    std::vector<int> chunks;
    for (const int p : parameters) {
      const int chunk = chunk_of[static_cast<std::size_t>(p)];
      if (chunk >= 0 && std::ranges::find(chunks, chunk) == chunks.end()) chunks.push_back(chunk);
    }
    if (!chunks.empty()) trace.push_back(std::move(chunks));
  }
  return trace;
}

/// Returns the chunks moved in and out in one step, or nothing where an operation needs more than
/// there is.
std::optional<std::int64_t> moves(const SearchInput& in, const std::vector<int>& chunk_of,
                                  std::int64_t num_blocks) {
  const std::vector<std::vector<int>> trace = chunk_trace(in, chunk_of);
  for (const std::vector<int>& chunks : trace) {
    if (static_cast<std::int64_t>(chunks.size()) > num_blocks) return std::nullopt;
  }
  return 2 * belady_misses(trace, num_blocks);
}

/// Counts moves, and remembers the last count. Sizes that pack alike move alike, and they are many.
class MoveCounter {
 public:
  explicit MoveCounter(const SearchInput& in) : in_(in) {}

  std::optional<std::int64_t> count(std::vector<int> chunk_of, std::int64_t num_blocks) {
    if (chunk_of != chunk_of_ || num_blocks != num_blocks_) {
      moves_ = moves(in_, chunk_of, num_blocks);
      chunk_of_ = std::move(chunk_of);
      num_blocks_ = num_blocks;
    }
    return moves_;
  }

 private:
  const SearchInput& in_;
  std::vector<int> chunk_of_;
  std::int64_t num_blocks_ = -1;
  std::optional<std::int64_t> moves_;
};

std::optional<ChunkChoice> choose_chunk(const SearchInput& in, std::int64_t free) {
  const ChunkRange range = chunk_range(in);
  const std::int64_t total = public_elements(in);
  if (total <= range.smallest) return ChunkChoice{total, total > 0 ? 1 : 0};
  const std::int64_t whole = free / range.step * range.step;
  MoveCounter counter(in);
  std::optional<ChunkChoice> best;
  std::int64_t fewest = 0;
  for (std::int64_t size = round_up(std::max(largest_public(in), range.smallest), range.step);
       size <= std::min(range.largest, whole); size += range.step) {
    std::int64_t blocks = whole / size - kOverlapBlocks;
    if (blocks <= 0) break;  // larger chunks leave no more
    std::vector<int> chunk_of = pack(in, size);
    blocks = std::min<std::int64_t>(blocks, num_chunks(chunk_of));
    const auto moved = counter.count(std::move(chunk_of), blocks);
    if (!moved || (best && *moved * size >= fewest)) continue;
    best = {size, blocks};
    fewest = *moved * size;
  }
  return best;
}

/// Returns the blocks that are set aside before optimizer state is placed.
std::int64_t first_blocks(const SearchInput& in, const ChunkChoice& chunk) {
  if (cache_first(in.dtype, in.num_gpus, in.rates) || chunk.elements == 0) return chunk.num_blocks;
  const std::int64_t region = (in.largest_region + chunk.elements - 1) / chunk.elements + 1;
  return std::min(std::max<std::int64_t>(kSmallestCache, region) + kOverlapBlocks,
                  chunk.num_blocks);
}

/// Returns the home of a chunk's shard and of its optimizer state. Takes their memory from `free`.
Home place(const SearchInput& in, std::int64_t chunk_elements, std::int64_t& free) {
  const std::int64_t need = state_elements(in.dtype) * chunk_elements / in.num_gpus;
  if (need > free) return Home::Host;
  free -= need;
  return Home::Gpu;
}

}  // namespace

std::optional<SearchResult> search(const SearchInput& in) {
  assert(in.fused.size() == in.parameters.size());
  std::int64_t free = free_elements(in);
  if (free < 0) return std::nullopt;
  std::optional<ChunkChoice> chunk = choose_chunk(in, free);
  if (!chunk) return std::nullopt;
  chunk->elements = round_up(chunk->elements, in.num_gpus);
  if (chunk->num_blocks * chunk->elements > free) return std::nullopt;

  SearchResult result;
  result.chunk_elements = chunk->elements;
  result.chunk_of = pack(in, chunk->elements);
  result.num_blocks = first_blocks(in, *chunk);
  free -= result.num_blocks * chunk->elements;
  for (int c = 0; c < num_chunks(result.chunk_of); ++c) {
    result.chunk_homes.push_back(place(in, chunk->elements, free));
  }
  for (std::size_t p = 0; p < in.parameters.size(); ++p) {
    if (!in.fused[p]) continue;
    result.fused_homes.push_back(place(in, round_up(in.parameters[p], in.num_gpus), free));
  }
  if (chunk->elements > 0) {
    result.num_blocks = std::min(result.num_blocks + free / chunk->elements, chunk->num_blocks);
  }
  return result;
}

}  // namespace athanor::elixir
