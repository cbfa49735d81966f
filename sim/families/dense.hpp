// SPDX-License-Identifier: Apache-2.0
// Dense decoders, each as a Decoder of its config.json.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/families/decoder.hpp"

namespace athanor::families {

// Rotary positions, and modules called as llama's.
[[nodiscard]] Decoder cohere(const ConfigReader& config);
[[nodiscard]] Decoder gemma(const ConfigReader& config);
[[nodiscard]] Decoder gemma2(const ConfigReader& config);
[[nodiscard]] Decoder gemma3(const ConfigReader& config);
[[nodiscard]] Decoder glm4(const ConfigReader& config);
[[nodiscard]] Decoder granite(const ConfigReader& config);
[[nodiscard]] Decoder llama(const ConfigReader& config);
[[nodiscard]] Decoder mimo(const ConfigReader& config);
[[nodiscard]] Decoder ministral(const ConfigReader& config);
[[nodiscard]] Decoder mistral(const ConfigReader& config);
[[nodiscard]] Decoder olmo(const ConfigReader& config);
[[nodiscard]] Decoder olmo2(const ConfigReader& config);
[[nodiscard]] Decoder phi(const ConfigReader& config);
[[nodiscard]] Decoder phi3(const ConfigReader& config);
[[nodiscard]] Decoder qwen2(const ConfigReader& config);
[[nodiscard]] Decoder qwen2_vl_text(const ConfigReader& config);
[[nodiscard]] Decoder qwen3(const ConfigReader& config);
[[nodiscard]] Decoder smollm3(const ConfigReader& config);
[[nodiscard]] Decoder stablelm(const ConfigReader& config);
[[nodiscard]] Decoder starcoder2(const ConfigReader& config);

// Names of their own.
[[nodiscard]] Decoder bloom(const ConfigReader& config);
[[nodiscard]] Decoder falcon(const ConfigReader& config);
[[nodiscard]] Decoder gpt_bigcode(const ConfigReader& config);
[[nodiscard]] Decoder gpt_neo(const ConfigReader& config);
[[nodiscard]] Decoder gpt_neox(const ConfigReader& config);
[[nodiscard]] Decoder gptj(const ConfigReader& config);
[[nodiscard]] Decoder mamba(const ConfigReader& config);
[[nodiscard]] Decoder opt(const ConfigReader& config);

}  // namespace athanor::families
