// SPDX-License-Identifier: Apache-2.0
#include "tests/model/settings_samples.hpp"

#include "sim/base/text_file.hpp"
#include "sim/settings/peer_plan.hpp"
#include "sim/settings/read_settings.hpp"

namespace athanor::test {
PeerSettings read(const std::string& name) {
  const std::string text = read_text_file(kCorpus + name);
  if (name.starts_with("deepspeed")) return read_deepspeed(text, name);
  if (name.starts_with("torchtitan")) return read_torchtitan(text, name);
  return read_accelerate(text, name, [](const std::string& path) {
    return read_text_file(kCorpus + "deepspeed/" + path);
  });
}

const char* name_of_home(Home home) {
  return home == Home::Gpu ? "gpu" : home == Home::Host ? "cpu" : "nvme";
}

PlanRequest Machine::request(const PeerSettings& settings) const {
  PlanRequest request{.num_gpus = settings.num_gpus.value,
                      .global_batch = settings.global_batch.value};
  if (settings.clip.value > 0) {
    request.clipping = Clipping::Wait;
    request.max_gradient_norm = settings.clip.value;
  }
  return request;
}

Plan Machine::plan(PeerSettings settings, const SettingsOptions& options) const {
  settle_batch(settings, options);
  settle_model(settings, profile);
  Plan plan = peer_plan(settings, profile, platform, request(settings));
  plan.validate(profile.architecture, settings.file);
  return plan;
}

}  // namespace athanor::test
