// SPDX-License-Identifier: Apache-2.0
// What `athanor show` prints, one function per kind of artefact.
#pragma once

#include <string>

namespace athanor::cli {

struct ShowRequest {
  std::string kind;            ///< model, memory, plan, program, platform or profile
  std::string file;            ///< for a model also a folder or a built-in name
  std::string profile_path;    ///< for memory and program; empty: the one that the plan names
  std::string platform_path;   ///< for a program as Chakra trace, likewise
  std::string form = "table";  ///< one of those that the kind has
  [[nodiscard]] bool json() const { return form == "json"; }
};

void show_model(const ShowRequest& request);
void show_platform(const ShowRequest& request);
void show_profile(const ShowRequest& request);

void show_plan(const ShowRequest& request);
void show_memory(const ShowRequest& request);
void show_program(const ShowRequest& request);

}  // namespace athanor::cli
