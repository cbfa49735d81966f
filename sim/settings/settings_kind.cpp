// SPDX-License-Identifier: Apache-2.0
#include "sim/settings/settings_kind.hpp"

#include "sim/settings/settings_document.hpp"

#include <algorithm>
#include <initializer_list>

namespace athanor {
namespace {

bool holds_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace

bool is_own_document(std::string_view text) noexcept {
  return text.find("\"athanor.") != std::string_view::npos;
}

std::optional<SettingsKind> settings_kind(std::string_view text) {
  if (static_cast<Bytes>(text.size()) > kMaxSettings || is_own_document(text)) return std::nullopt;
  if (holds_one_of(text, {"distributed_type"})) return SettingsKind{"accelerate", "--accelerate"};
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  if (is_json && holds_one_of(text, {"\"zero_optimization\"", "\"train_batch_size\"",
                                     "\"train_micro_batch_size_per_gpu\""})) {
    return SettingsKind{"DeepSpeed", "--deepspeed"};
  }
  if (!is_json && holds_one_of(text, {"[parallelism]", "[training]"})) {
    return SettingsKind{"torchtitan", "--torchtitan"};
  }
  return std::nullopt;
}

}  // namespace athanor
