// SPDX-License-Identifier: Apache-2.0
// Settings files of other systems from the fuzzers' corpus, and a machine on which to plan them.
#pragma once

#include "sim/formats/hf_config.hpp"
#include "sim/model/plan.hpp"
#include "sim/policy/request.hpp"
#include "sim/settings/peer_settings.hpp"
#include "sim/settings/settled_settings.hpp"
#include "tests/support/synthetic.hpp"

#include <string>

namespace athanor::test {

/// Folder of the corpus.
inline const std::string kCorpus = ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/";

/// Reads SYSTEM/NAME of the corpus by the reader of its system.
[[nodiscard]] PeerSettings read(const std::string& name);

/// Returns a home in the words of DeepSpeed.
[[nodiscard]] const char* name_of_home(Home home);

struct Machine {
  Platform platform = synthetic_platform(4);
  Profile profile = synthetic_profile(load_architecture("gpt2-tiny"), 128, {1, 2, 4});
  Machine() { profile.dtype = DataType::BFloat16; }

  [[nodiscard]] PlanRequest request(const PeerSettings& settings) const;
  /// Settles the settings and returns their plan, which is valid.
  [[nodiscard]] Plan plan(PeerSettings settings, const SettingsOptions& options) const;
};

}  // namespace athanor::test
