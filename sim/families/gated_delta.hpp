// SPDX-License-Identifier: Apache-2.0
// Decoders whose blocks have full attention or linear attention by the gated delta rule.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/families/decoder.hpp"

namespace athanor::families {

/// Projections of the hidden state to what the delta rule takes.
enum class DeltaInputs {
  Grouped,   ///< queries, keys, values and gates in one matrix, decays and betas in another
  Separate,  ///< queries, keys and values in one, and three more
};

/// Decoder of both kinds of blocks, in the order of layer_types or of full_attention_interval.
/// `mlp` adds what follows attention in a block.
[[nodiscard]] Decoder delta_hybrid(const ConfigReader& config, const DecoderSizes& sizes,
                                   DeltaInputs inputs, const AddBlock& mlp);

[[nodiscard]] Decoder qwen3_5(const ConfigReader& config);

}  // namespace athanor::families
