// SPDX-License-Identifier: Apache-2.0
// Fuzzes one reader of settings per target (ATHANOR_FUZZ_*). Whatever the text, it either throws an
// InputError, or its settings stand for a plan that is valid for a model.
#include "sim/base/errors.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/settings/peer_plan.hpp"
#include "sim/settings/read_settings.hpp"
#include "sim/settings/settled_settings.hpp"
#include "tests/support/synthetic.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

athanor::PeerSettings read(std::string_view text) {
#if defined(ATHANOR_FUZZ_DEEPSPEED)
  return athanor::read_deepspeed(text, "input");
#elif defined(ATHANOR_FUZZ_TORCHTITAN)
  return athanor::read_torchtitan(text, "input");
#else
  return athanor::read_accelerate(text, "input", [](const std::string&) {
    return std::string(R"({"train_micro_batch_size_per_gpu": 1})");
  });
#endif
}

void complete(athanor::PeerSettings& settings) {
  const auto open = [](const auto& setting) { return setting.origin.line == 0 || setting.is_auto; };
  athanor::SettingsOptions options{.num_gpus = open(settings.num_gpus) ? 2 : 0};
  if (open(settings.micro_batch)) options.micro_batch = 1;
  if (open(settings.clip)) options.clip = 1;
  athanor::settle_batch(settings, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const athanor::Profile profile =
      athanor::test::synthetic_profile(athanor::load_architecture("gpt2-tiny"), 128, {1, 2, 4});
  static const athanor::Platform platform = athanor::test::synthetic_platform(4);
  athanor::PeerSettings settings(athanor::Peer::Ddp, "", "");
  try {
    settings = read({reinterpret_cast<const char*>(data), size});
    complete(settings);
    athanor::settle_model(settings, profile);
  } catch (const athanor::InputError&) {
    return 0;
  }
  const std::int64_t product = settings.micro_batch.value * settings.accumulation.value *
                               static_cast<std::int64_t>(settings.num_gpus.value);
  if (product != settings.global_batch.value) std::abort();
  const athanor::PlanRequest request{.num_gpus = settings.num_gpus.value,
                                     .global_batch = settings.global_batch.value};
  if (!platform.holds(request.num_gpus) || settings.accumulation.value > 1'000) return 0;
  // An exception here is a finding.
  athanor::peer_plan(settings, profile, platform, request).validate(profile.architecture, "plan");
  return 0;
}
