// SPDX-License-Identifier: Apache-2.0
// One reader per format of import_benchmarks.hpp. Internal to this folder.
#pragma once

#include "sim/formats/json_reader.hpp"
#include "sim/model/platform.hpp"

#include <string>
#include <vector>

namespace athanor {

std::vector<std::string> import_nvbandwidth(JsonReader json, Platform& platform);
std::vector<std::string> import_nccl_tests(JsonReader json, Platform& platform);

/// Adds a sentence to the notes.
void note_import(Platform& platform, const std::string& sentence);

}  // namespace athanor
