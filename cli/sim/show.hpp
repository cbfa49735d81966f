// SPDX-License-Identifier: Apache-2.0
// Functions of `athanor show`, one per kind of artefact.
#pragma once

#include "sim/model/program.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor::cli {

struct ShowRequest {
  std::string kind;            ///< model, memory, plan, program, platform or profile
  std::string file;            ///< path; for a model also a folder or a built-in name
  std::string profile_path;    ///< used by memory and program; empty: the plan's
  std::string platform_path;   ///< used by a program as Chakra trace; empty: the plan's
  bool split_blocks = false;   ///< used by a model: two units of each block
  std::string form = "table";  ///< one of the kind's forms
  [[nodiscard]] bool json() const { return form == "json"; }
};

void show_model(const ShowRequest& request);
void show_platform(const ShowRequest& request);
void show_profile(const ShowRequest& request);

/// Returns peak_bytes, peak_operation (the operation at the peak), and static_bytes by tier and
/// purpose.
[[nodiscard]] nlohmann::ordered_json memory_json(const Program& program);

void show_plan(const ShowRequest& request);
void show_memory(const ShowRequest& request);
void show_program(const ShowRequest& request);

}  // namespace athanor::cli
