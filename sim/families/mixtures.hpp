// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts, each as a Decoder of its config.json.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/families/decoder.hpp"

namespace athanor::families {

[[nodiscard]] Decoder dbrx(const ConfigReader& config);
[[nodiscard]] Decoder deepseek_v2(const ConfigReader& config);
[[nodiscard]] Decoder deepseek_v3(const ConfigReader& config);
/// DeepSeek-V3 with indexers, which choose the tokens that a block attends to.
[[nodiscard]] Decoder deepseek_v32(const ConfigReader& config);
[[nodiscard]] Decoder glm_moe_dsa(const ConfigReader& config);
[[nodiscard]] Decoder llama4_text(const ConfigReader& config);
[[nodiscard]] Decoder minimax_m2(const ConfigReader& config);
/// Blocks of four kinds: Mamba-2, attention, perceptrons and experts.
[[nodiscard]] Decoder nemotron_h(const ConfigReader& config);
[[nodiscard]] Decoder phimoe(const ConfigReader& config);
/// Qwen3's mixture inside a vision-language model, whose experts lie in one tensor.
[[nodiscard]] Decoder qwen3_vl_moe_text(const ConfigReader& config);
[[nodiscard]] Decoder qwen3_next(const ConfigReader& config);

}  // namespace athanor::families
