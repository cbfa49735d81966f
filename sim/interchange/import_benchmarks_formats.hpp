// SPDX-License-Identifier: Apache-2.0
// Readers of import_benchmarks.hpp, one per format. Internal to this folder.
#pragma once

#include "sim/formats/json_reader.hpp"
#include "sim/model/platform.hpp"

#include <string>
#include <vector>

namespace athanor {

std::vector<std::string> import_nvbandwidth(JsonReader json, Platform& platform);
std::vector<std::string> import_nccl_tests(JsonReader json, Platform& platform);

/// Adds a sentence to the platform's notes.
void note_import(Platform& platform, const std::string& sentence);

}  // namespace athanor
