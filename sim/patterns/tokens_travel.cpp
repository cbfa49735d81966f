// SPDX-License-Identifier: Apache-2.0
#include "sim/patterns/tokens_travel.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/patterns/owned_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace athanor {
namespace {

/// Returns the number of the expert that a parameter is of, by its name "..experts.N...".
std::optional<std::int64_t> expert_of(const Parameter& parameter) {
  static constexpr std::string_view kMark = ".experts.";
  const std::size_t mark = parameter.name.find(kMark);
  if (mark == std::string::npos) return std::nullopt;
  const char* const digits = parameter.name.data() + mark + kMark.size();
  std::int64_t expert = 0;
  const auto [end, error] =
      std::from_chars(digits, parameter.name.data() + parameter.name.size(), expert);
  return error == std::errc() && *end == '.' ? std::optional(expert) : std::nullopt;
}

/// Elements of a row, which is what travels of a token: an expert's first layer reads it.
std::int64_t row_elements(const Unit& unit) {
  const auto first = std::ranges::find_if(
      unit.parameters, [](const Parameter& parameter) { return expert_of(parameter).has_value(); });
  return first == unit.parameters.end() ? 0 : first->shape.back();
}

class TokensTravel final : public UnitPattern {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "tokens"; }
  [[nodiscard]] std::string_view phrase() const noexcept override { return "tokens travel"; }
  [[nodiscard]] std::string_view key() const noexcept override { return "tokens_travel"; }
  [[nodiscard]] std::string_view how_to_profile() const noexcept override {
    return "Profile a mixture with --split-blocks --expert-ranks N, for that many GPUs.";
  }

  [[nodiscard]] bool suits(const Architecture& /*architecture*/, const Unit& unit) const override {
    return has_only_experts(unit);
  }

  [[nodiscard]] bool divides(const Architecture& /*architecture*/, const Unit& unit,
                             int ranks) const override {
    return ranks > 0 && num_experts(unit) % ranks == 0 && !unaligned_cut(unit, *this, ranks);
  }

  void validate(const Plan& plan, const Architecture& architecture, const Unit& unit,
                const UnitPlan& unit_plan, const std::string& where) const override;

  /// A range ends where the experts' numbers start again: first come gates and ups, then downs.
  [[nodiscard]] std::vector<OwnedRange> owned(const Unit& unit) const override {
    std::vector<OwnedRange> ranges;
    std::optional<std::int64_t> before;
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const std::optional<std::int64_t> expert = expert_of(unit.parameters[i]);
      if (expert && (!before || *expert < *before)) ranges.push_back({i, 0});
      if (expert) ++ranges.back().count;
      before = expert;
    }
    return ranges;
  }

  [[nodiscard]] std::vector<Exchange> exchanges() const override {
    return {Exchange::Dispatch, Exchange::Combine};
  }

  /// Every rank has a piece of `capacity` rows for every rank. Beside the rows, dispatch says where
  /// each expert's rows end.
  [[nodiscard]] Bytes exchange_bytes(const Plan& plan, const Unit& unit, const UnitPlan& unit_plan,
                                     Exchange exchange, bool backward) const override {
    const Bytes rows =
        plan.world_size * unit_plan.capacity * row_elements(unit) * size_of(plan.dtype);
    const Bytes ends = num_experts(unit) * static_cast<Bytes>(sizeof(std::int32_t));
    return exchange == Exchange::Dispatch && !backward ? rows + ends : rows;
  }
};

void TokensTravel::validate(const Plan& plan, const Architecture& /*architecture*/,
                            const Unit& unit, const UnitPlan& unit_plan,
                            const std::string& where) const {
  const std::string pattern = where + ".pattern";
  if (!has_only_experts(unit)) {
    refuse(*this, pattern, fmt::format("unit {}, which is no experts' half of a block", unit.name),
           "Profile the model with --split-blocks");
  }
  const std::int64_t experts = num_experts(unit);
  if (experts % plan.world_size != 0) {
    refuse(*this, pattern, fmt::format("{} experts on {} ranks", experts, plan.world_size),
           "Use a number of ranks that divides the number of experts");
  }
  require_room_for_owned_parts(*this, plan, unit_plan, pattern,
                               "experts stay on the GPU of their rank");
  if (unit_plan.capacity < 1) {
    throw InputError(where + ".capacity",
                     fmt::format("{} rows, and tokens travel", unit_plan.capacity),
                     "Give the rows that one rank can send another: micro_batch x sequence_length "
                     "x experts per token are enough however tokens are routed.");
  }
  if (const auto cut = unaligned_cut(unit, *this, plan.world_size)) {
    refuse(*this, pattern,
           fmt::format("element {} of unit {}, which is no multiple of {} x {}", *cut, unit.name,
                       plan.world_size, kParameterAlignment),
           "Use fewer ranks");
  }
}

}  // namespace

const UnitPattern& tokens_travel() noexcept {
  static const TokensTravel pattern;
  return pattern;
}

bool has_only_experts(const Unit& unit) {
  return unit.forward_flops_per_token_per_context == 0 && num_experts(unit) > 0;
}

std::int64_t num_experts(const Unit& unit) {
  std::int64_t number = 0;
  for (const Parameter& parameter : unit.parameters) {
    number = std::max(number, expert_of(parameter).value_or(-1) + 1);
  }
  return number;
}

std::int64_t safe_capacity(const Unit& unit, std::int64_t per_token, std::int64_t tokens,
                           int world_size) {
  return tokens * std::min(per_token, num_experts(unit) / world_size);
}

}  // namespace athanor
