// SPDX-License-Identifier: Apache-2.0
// AdamW with moments in int8. A block's moments are widened to fp32, which the update of fp32
// moments takes, and then get a new scale. So a block is updated at once, with all segments in it.
#include "executor/cpu/adam.hpp"
#include "executor/cpu/block_moments.hpp"
#include "executor/cpu/parallel_blocks.hpp"

#include <algorithm>
#include <cassert>

namespace athanor {
namespace {

/// Blocks of one task: as many elements as a wake-up is worth.
constexpr std::int64_t kBlocksOfTask = 64;

template <typename Gradient>
struct BlockWork {
  AdamStateView from, to;
  std::span<const Gradient> gradient;
  std::span<const AdamSegment> segments;
  AdamStep decaying, plain;
  float gradient_scale;
  BFloat16Bits* old_parameters;
};

/// Copies the master of one block, and the old parameters of a split one.
void copy_master(const AdamStateView& from, const AdamStateView& to, BFloat16Bits* old_parameters) {
  if (old_parameters != nullptr) std::copy_n(from.parameters, kMomentBlock, old_parameters);
  if (!from.is_split()) {
    std::copy_n(from.master, kMomentBlock, to.master);
    return;
  }
  if (to.parameters != from.parameters) {
    std::copy_n(from.parameters, kMomentBlock, to.parameters);
  }
  std::copy_n(from.rests, kMomentBlock, to.rests);
}

/// Updates the block that begins at `begin`; `segment` is the first that may reach into it.
template <typename Gradient>
void update_block(const BlockWork<Gradient>& work, std::int64_t begin, const AdamSegment* segment) {
  const AdamStateView from = work.from.starting_at(begin), to = work.to.starting_at(begin);
  if (!(from == to)) {
    copy_master(from, to, work.old_parameters == nullptr ? nullptr : work.old_parameters + begin);
  }
  float first[kMomentBlock], second[kMomentBlock];
  decode_block(from.first_moment_int8, from.second_moment_int8, *from.scales, first, second);
  const AdamSegment* const end_of_segments = work.segments.data() + work.segments.size();
  for (; segment != end_of_segments && segment->begin < begin + kMomentBlock; ++segment) {
    const std::int64_t at = std::max(segment->begin, begin) - begin;
    const std::int64_t end = std::min(segment->end, begin + kMomentBlock) - begin;
    AdamStateView widened{.first_moment = first + at, .second_moment = second + at};
    if (to.is_split()) {
      widened.parameters = to.parameters + at;
      widened.rests = to.rests + at;
    } else {
      widened.master = to.master + at;
    }
    const auto gradient = work.gradient.subspan(static_cast<std::size_t>(begin + at),
                                                static_cast<std::size_t>(end - at));
    adamw(widened, gradient, segment->decays ? work.decaying : work.plain, work.gradient_scale);
  }
  encode_block(first, second, to.first_moment_int8, to.second_moment_int8, *to.scales);
}

template <typename Gradient>
void update_all(const BlockWork<Gradient>& work, int threads) {
  const std::int64_t blocks = (work.segments.back().end + kMomentBlock - 1) / kMomentBlock;
  parallel_tasks((blocks + kBlocksOfTask - 1) / kBlocksOfTask, threads, [&](std::int64_t task) {
    const std::int64_t last = std::min(blocks, (task + 1) * kBlocksOfTask);
    const AdamSegment* segment = work.segments.data();
    for (std::int64_t block = task * kBlocksOfTask; block < last; ++block) {
      const std::int64_t begin = block * kMomentBlock;
      while (segment->end <= begin) ++segment;
      if (segment->begin < begin + kMomentBlock) update_block(work, begin, segment);
    }
  });
}

template <typename Gradient>
void update_in_blocks(const AdamStateView& from, const AdamStateView& to,
                      std::span<const Gradient> gradient, std::span<const AdamSegment> segments,
                      const AdamCoefficients& c, int threads, BFloat16Bits* old_parameters) {
  assert(from.has_int8_moments() && to.has_int8_moments());
  if (segments.empty()) return;
  AdamCoefficients plain = c;
  plain.weight_decay = 0;
  update_all(BlockWork<Gradient>{from, to, gradient, segments, adam_step(c), adam_step(plain),
                                 c.gradient_scale, old_parameters},
             threads);
}

}  // namespace

void adamw_in_blocks(const AdamStateView& from, const AdamStateView& to,
                     std::span<const float> gradient, std::span<const AdamSegment> segments,
                     const AdamCoefficients& c, int threads, BFloat16Bits* old_parameters) {
  update_in_blocks(from, to, gradient, segments, c, threads, old_parameters);
}

void adamw_in_blocks(const AdamStateView& from, const AdamStateView& to,
                     std::span<const BFloat16Bits> gradient, std::span<const AdamSegment> segments,
                     const AdamCoefficients& c, int threads, BFloat16Bits* old_parameters) {
  update_in_blocks(from, to, gradient, segments, c, threads, old_parameters);
}

}  // namespace athanor
