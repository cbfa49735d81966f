// SPDX-License-Identifier: Apache-2.0
// Architecture: a model as a list of units in execution order, without weights and without
// LibTorch.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/image_classifier.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Scaling of rotary positions beyond those that a model was first trained for, by the names of
/// Hugging Face's rope_scaling. Fields that the type does not use keep their defaults.
struct RopeScaling {
  std::string type;                      ///< linear, dynamic, llama3, yarn or longrope; empty: none
  double factor = 1;                     ///< times as many positions; all types but longrope
  std::int64_t original_positions = 0;   ///< positions before scaling; all types but linear
  double low_frequency_factor = 1;       ///< llama3: longer waves are scaled
  double high_frequency_factor = 4;      ///< llama3: shorter waves are not
  double beta_fast = 32, beta_slow = 1;  ///< yarn: turns between which scaling sets in
  bool truncate = true;                  ///< yarn: those limits are whole elements
  double attention_factor = 1;           ///< yarn and longrope: of all cosines and sines
  std::vector<double> short_factor, long_factor;  ///< longrope: by pair of elements

  [[nodiscard]] bool is_none() const noexcept { return type.empty(); }
};

/// Experts of a mixture (Shazeer et al. 2017): gated perceptrons, of which a router gives each
/// token a few. Names are those of the design and not of config.json.
struct ExpertsConfig {
  std::int64_t number = 0;                    ///< experts of a block; 0: the model has none
  std::int64_t per_token = 0;                 ///< experts that a token uses ("top-k")
  std::int64_t intermediate_size = 0;         ///< inner width of one expert
  std::int64_t shared_intermediate_size = 0;  ///< width of the shared expert; 0: none
  bool normalized = false;  ///< the weights of a token's experts are scaled to a sum of 1
  /// Limit of gate and up, which gpt_oss clamps before it multiplies them; 0 where nothing is.
  double gate_limit = 0;
  /// Factor of the loss that keeps experts equally busy; 0 where the model adds none.
  double balance_loss_factor = 0;
  std::vector<std::int64_t> dense_blocks;  ///< blocks with an ordinary perceptron, ascending

  [[nodiscard]] bool exist() const noexcept { return number > 0; }
  /// Whether block `index` has experts.
  [[nodiscard]] bool are_in(std::int64_t index) const noexcept {
    return exist() && !std::binary_search(dense_blocks.begin(), dense_blocks.end(), index);
  }
  /// Part of the experts that a token uses.
  [[nodiscard]] double share() const noexcept {
    return static_cast<double>(per_token) / static_cast<double>(number);
  }
};

/// Constant factors between the parts of a model (granitemoe; Yang et al. 2022 derive such ones).
struct Multipliers {
  double embedding = 1;       ///< factor of the tokens' embeddings
  double attention = 0;       ///< factor of attention's scores; 0: one over the root of head_dim
  double residual = 1;        ///< factor of what either half of a block adds to the residual stream
  double logits_divisor = 1;  ///< divisor of the vocabulary's scores
  bool operator==(const Multipliers&) const = default;
};

/// Hyperparameters of a causal language model, under the names of the design and not of one file
/// format. Read from a Hugging Face config.json (see hf_config.hpp).
struct LanguageModelConfig {
  std::string model_type;  ///< one of kModelTypes
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;  ///< equals num_heads without grouped-query attention
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t max_positions = 0;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;      ///< llama family only
  RopeScaling rope_scaling;         ///< llama family only
  std::int64_t sliding_window = 0;  ///< tokens; 0 = full attention
  /// Blocks with full attention where others have the window, ascending; gpt_oss only.
  std::vector<std::int64_t> full_attention_blocks;
  std::string activation;  ///< gelu_new, gelu, relu or silu
  bool tie_word_embeddings = false;
  bool attention_bias = false;         ///< on q, k and v (qwen2: true)
  bool attention_output_bias = false;  ///< on the output projection
  bool mlp_bias = false;
  ExpertsConfig experts;    ///< llama family only
  Multipliers multipliers;  ///< granitemoe only
};

/// Throws InputError when no model can have this shape. `where` names the file.
void validate(const LanguageModelConfig& config, const std::string& where);

/// Tokens that attention sees in block `block`; 0 = all before a token.
[[nodiscard]] std::int64_t window_of(const LanguageModelConfig& config, std::int64_t block);

/// Text of the scaling for hashes; empty where there is none.
[[nodiscard]] std::string text_of(const RopeScaling& scaling);
/// Text for hashes of what no parameter's shape says about experts; empty where there are none.
[[nodiscard]] std::string text_of(const ExpertsConfig& experts);
/// Text of the multipliers for hashes; empty where none changes anything.
[[nodiscard]] std::string text_of(const Multipliers& multipliers);

/// One named parameter tensor. Names are those of the Hugging Face checkpoint.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  [[nodiscard]] std::int64_t num_elements() const noexcept;
};

/// A parameter of another unit that this unit reads too (tied embeddings). Its gradient is added to
/// the owner's.
struct Borrow {
  int unit = 0;           ///< index of the owner in Architecture::units
  std::string parameter;  ///< name in the owner
};

/// Part of a model that is fetched, computed and released together.
struct Unit {
  std::string name;        ///< "embedding", "block.0", .., "head"
  std::string unit_class;  ///< units of one class have equal shapes and are profiled once
  std::vector<Parameter> parameters;  ///< owned, in flat order; may be empty
  std::vector<Borrow> borrows;
  double forward_flops_per_token = 0;  ///< matrix products; excludes attention scores
  double forward_flops_per_token_per_context =
      0;  ///< attention, for each token of context; halved by the causal mask
  [[nodiscard]] std::int64_t num_elements() const noexcept;
};

/// Origin of units whose sizes athanor knows and which it has no code to run.
struct KnownSizes {
  std::string model_type;    ///< model_type of config.json: "gemma2", "mixtral", ..
  std::string class_name;    ///< class of transformers that has these parameters
  bool has_experts = false;  ///< a token uses a part of the parameters alone
  /// Whether it is worth a try to trace it: a row of decoder layers without routing.
  [[nodiscard]] bool can_be_traced() const noexcept;
};

/// A language model that athanor has no units of its own for: its units are graphs that were traced
/// from transformers' modules (`athanor trace`).
struct TracedModel {
  std::string model_type;  ///< as in config.json
  std::int64_t vocab_size = 0;
  std::int64_t sequence_length = 0;  ///< tokens; the graphs take no other length
  bool documents = false;            ///< whether several documents may share a sequence
};

/// A model as units in execution order. The last unit ends in the loss.
struct Architecture {
  std::string name;
  std::optional<LanguageModelConfig> language_model;  ///< absent for a user's own modules
  std::vector<Unit> units;
  std::optional<KnownSizes> known_sizes = std::nullopt;  ///< for planning, not for training
  std::optional<TracedModel> traced = std::nullopt;      ///< never beside language_model
  /// never beside the others: images and labels in place of tokens
  std::optional<ImageClassifierConfig> image_classifier = std::nullopt;
  /// Number of token ids that the model knows; nothing for a model of other data than tokens.
  [[nodiscard]] std::optional<std::int64_t> vocab_size() const noexcept;
  [[nodiscard]] std::int64_t num_parameters() const noexcept;  ///< each tied tensor once
  /// Whether other units borrow parameters of the unit with this index.
  [[nodiscard]] bool lends(std::size_t unit) const noexcept;
  /// Forward + backward FLOPs of one token at context length `sequence` (3 x forward; recompute not
  /// counted).
  [[nodiscard]] double model_flops_per_token(std::int64_t sequence) const noexcept;
  /// Throws InputError when a borrow, a name or a shape is impossible. `where` names the file.
  void validate(const std::string& where) const;
};

/// Makes the units of a language model. Parameter names and shapes are those of the Hugging Face
/// checkpoint of `config.model_type`.
[[nodiscard]] Architecture make_architecture(const std::string& name,
                                             const LanguageModelConfig& config);

/// Throws InputError, which names the type and the way out, for units of known sizes alone.
void require_units(const Architecture& architecture);

/// Names that load_architecture knows without a file, sorted.
[[nodiscard]] std::vector<std::string> builtin_architectures();

}  // namespace athanor
