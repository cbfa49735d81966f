// SPDX-License-Identifier: Apache-2.0
// Readers of settings files: DeepSpeed's JSON, accelerate's YAML (or JSON) and torchtitan's TOML.
#pragma once

#include "sim/settings/peer_settings.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace athanor {

/// Each reads one file's text. They throw InputError for values out of range, for unknown keys
/// where the system refuses them too, and for what athanor cannot model at all. What changes the
/// step without being modelled, and keys that the system itself passes over, become notes.
[[nodiscard]] PeerSettings read_deepspeed(std::string_view text, const std::string& file);
[[nodiscard]] PeerSettings read_torchtitan(std::string_view text, const std::string& file);
/// `read_file` returns the text of the file that deepspeed_config_file names.
[[nodiscard]] PeerSettings read_accelerate(
    std::string_view text, const std::string& file,
    const std::function<std::string(const std::string& path)>& read_file);

}  // namespace athanor
