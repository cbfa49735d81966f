// SPDX-License-Identifier: Apache-2.0
// Tells settings of other systems from plans, by their text alone.
#pragma once

#include <optional>
#include <string_view>

namespace athanor {

struct SettingsKind {
  const char* system;  ///< "DeepSpeed"
  const char* option;  ///< option of simulate that reads them: "--deepspeed"
};

/// Returns whose settings a text is; nothing for any other text.
[[nodiscard]] std::optional<SettingsKind> settings_kind(std::string_view text);

/// Whether the text is a document of athanor, by its schema.
[[nodiscard]] bool is_own_document(std::string_view text) noexcept;

}  // namespace athanor
