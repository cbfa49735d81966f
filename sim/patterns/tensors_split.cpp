// SPDX-License-Identifier: Apache-2.0
#include "sim/patterns/tensors_split.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/patterns/owned_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {
namespace {

/// Models with rotary attention whose norms of queries and keys are of one head at most.
constexpr std::array<std::string_view, 8> kModels{
    "llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen2_moe", "qwen3_moe", "granitemoe"};
/// Layers whose outputs are divided, and those whose inputs are. Their parts on all ranks are
/// summed, and a bias of theirs is added behind the sum.
constexpr std::array<std::string_view, 5> kByOutputs{".self_attn.q_proj.", ".self_attn.k_proj.",
                                                     ".self_attn.v_proj.", ".mlp.gate_proj.",
                                                     ".mlp.up_proj."};
constexpr std::array<std::string_view, 2> kByInputs{".self_attn.o_proj.weight",
                                                    ".mlp.down_proj.weight"};

bool has_one_of(const std::string& name, const auto& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

std::optional<Cut> cut_of(const Parameter& parameter) {
  if (has_one_of(parameter.name, kByOutputs)) return Cut::Rows;
  if (has_one_of(parameter.name, kByInputs)) return Cut::Columns;
  return std::nullopt;
}

bool has_attention(const Unit& unit) { return unit.forward_flops_per_token_per_context > 0; }

/// Elements of a row, which is what travels of a token: the first layer reads it.
std::int64_t gathered_elements(const Unit& unit) {
  const auto first = std::ranges::find_if(unit.parameters, [](const Parameter& parameter) {
    return cut_of(parameter) == Cut::Rows && parameter.shape.size() > 1;
  });
  return first == unit.parameters.end() ? 0 : first->shape.back();
}

/// Says what of the unit does not divide among so many ranks; nothing where all does. Every rank's
/// part of a matrix begins aligned, and whole heads stay on a rank.
std::optional<std::string> undivided(const Architecture& architecture, const Unit& unit,
                                     int world_size) {
  const LanguageModelConfig& config = architecture.language_model.value();
  const auto check = [&](std::int64_t number, const char* of) -> std::optional<std::string> {
    if (number % world_size == 0) return std::nullopt;
    return fmt::format("{} {} on {} ranks", number, of, world_size);
  };
  auto first = has_attention(unit) ? check(config.num_heads, "heads")
                                   : check(config.intermediate_size, "inner features");
  if (first) return first;
  auto second =
      has_attention(unit) ? check(config.num_kv_heads, "heads of keys and values") : std::nullopt;
  if (second) return second;
  const std::int64_t multiple = world_size * kParameterAlignment;
  for (const Parameter& parameter : unit.parameters) {
    if (!cut_of(parameter) || parameter.num_elements() % multiple == 0) continue;
    return fmt::format("the {} elements of {}, which are no multiple of {} x {}",
                       parameter.num_elements(), parameter.name, world_size, kParameterAlignment);
  }
  if (const auto cut = unaligned_cut(unit, tensors_split(), world_size)) {
    return fmt::format("element {} of unit {}, which is no multiple of {} x {}", *cut, unit.name,
                       world_size, kParameterAlignment);
  }
  return std::nullopt;
}

class TensorsSplit final : public UnitPattern {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "tensors"; }
  [[nodiscard]] std::string_view phrase() const noexcept override { return "tensors are split"; }
  [[nodiscard]] std::string_view key() const noexcept override { return "tensors_split"; }
  [[nodiscard]] std::string_view how_to_profile() const noexcept override {
    return "Profile llama, mistral, qwen2, qwen3 or a mixture of such attention with "
           "--split-blocks --tensor-ranks N, for that many GPUs.";
  }

  [[nodiscard]] bool suits(const Architecture& architecture, const Unit& unit) const override {
    return has_tensors_to_split(architecture, unit);
  }

  [[nodiscard]] bool divides(const Architecture& architecture, const Unit& unit,
                             int ranks) const override {
    return tensors_divide(architecture, unit, ranks);
  }

  void validate(const Plan& plan, const Architecture& architecture, const Unit& unit,
                const UnitPlan& unit_plan, const std::string& where) const override;

  [[nodiscard]] std::vector<OwnedRange> owned(const Unit& unit) const override {
    std::vector<OwnedRange> ranges;
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      if (const auto cut = cut_of(unit.parameters[i])) ranges.push_back({i, 1, *cut});
    }
    return ranges;
  }

  [[nodiscard]] std::vector<Exchange> exchanges() const override {
    return {Exchange::Gather, Exchange::Reduce};
  }

  /// Both move the rows of all ranks, forward and backward.
  [[nodiscard]] Bytes exchange_bytes(const Plan& plan, const Unit& unit,
                                     const UnitPlan& /*unit_plan*/, Exchange /*exchange*/,
                                     bool /*backward*/) const override {
    return plan.world_size * plan.micro_batch * plan.sequence_length * gathered_elements(unit) *
           size_of(plan.dtype);
  }
};

void TensorsSplit::validate(const Plan& plan, const Architecture& architecture, const Unit& unit,
                            const UnitPlan& unit_plan, const std::string& where) const {
  const std::string pattern = where + ".pattern";
  if (!has_tensors_to_split(architecture, unit)) {
    refuse(*this, pattern,
           fmt::format("unit {}, which is no attention and no perceptron of {}", unit.name,
                       fmt::join(kModels, ", ")),
           "Profile such a model with --split-blocks");
  }
  if (const auto problem = undivided(architecture, unit, plan.world_size)) {
    refuse(*this, pattern, *problem, "Use a number of ranks that divides them");
  }
  require_room_for_owned_parts(*this, plan, unit_plan, pattern,
                               "each rank's part stays on its GPU");
  if (unit_plan.capacity != 0) {
    throw InputError(where + ".capacity",
                     fmt::format("{} rows, and all rows travel", unit_plan.capacity),
                     "Leave capacity out: it is for tokens that travel.");
  }
}

}  // namespace

const UnitPattern& tensors_split() noexcept {
  static const TensorsSplit pattern;
  return pattern;
}

bool has_tensors_to_split(const Architecture& architecture, const Unit& unit) {
  if (!architecture.language_model) return false;
  const auto* const known = std::ranges::find(kModels, architecture.language_model->model_type);
  if (known == kModels.end()) return false;
  const auto count = [&](std::string_view layer) {
    return std::ranges::count_if(unit.parameters, [layer](const Parameter& parameter) {
      return parameter.name.find(layer) != std::string::npos;
    });
  };
  return count(".self_attn.o_proj.weight") + count(".mlp.down_proj.weight") == 1;
}

bool tensors_divide(const Architecture& architecture, const Unit& unit, int world_size) {
  return world_size > 0 && !undivided(architecture, unit, world_size);
}

}  // namespace athanor
