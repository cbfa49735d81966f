// SPDX-License-Identifier: Apache-2.0
// Settings of other training systems, given where a plan of athanor is meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace athanor {

struct ForeignSettings {
  std::string system;   ///< "DeepSpeed"
  std::string options;  ///< options of simulate: "--policy zero3-offload --clip 1"
};

/// Returns what the text of a DeepSpeed JSON, an accelerate YAML or a torchtitan TOML asks for, as
/// the policy that stands for it and the options that follow from it; nothing for any other text.
[[nodiscard]] std::optional<ForeignSettings> foreign_settings(std::string_view text);

}  // namespace athanor
