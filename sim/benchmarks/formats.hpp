// SPDX-License-Identifier: Apache-2.0
// Readers of import_benchmarks.hpp, one per format. Internal to this folder.
#pragma once

#include "sim/formats/json_reader.hpp"
#include "sim/model/platform.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

std::vector<std::string> import_nvbandwidth(JsonReader json, Platform& platform);
std::vector<std::string> import_nccl_tests(JsonReader json, Platform& platform);
std::vector<std::string> import_fio(JsonReader json, Platform& platform);

/// Whether the text is what the program prints, and its import.
[[nodiscard]] bool is_nccl_text(std::string_view text);
std::vector<std::string> import_nccl_text(std::string_view text, const std::string& where,
                                          Platform& platform);
[[nodiscard]] bool is_nvbandwidth_text(std::string_view text);
std::vector<std::string> import_nvbandwidth_text(std::string_view text, const std::string& where,
                                                 Platform& platform);
[[nodiscard]] bool is_stream_text(std::string_view text);
std::vector<std::string> import_stream_text(std::string_view text, const std::string& where,
                                            Platform& platform);

/// Adds a sentence to the platform's notes.
void note_import(Platform& platform, const std::string& sentence);

}  // namespace athanor
