// SPDX-License-Identifier: Apache-2.0
// Loads a model's shape and counts its parameters, as a first program on the installed library.
#include "sim/formats/hf_config.hpp"
#include "sim/model/architecture.hpp"
#ifdef HAS_ENGINE
#include "sim/engine/engine.hpp"
#endif

int main() {
  const athanor::Architecture model = athanor::load_architecture("gpt2-4b");
#ifdef HAS_ENGINE
  const athanor::SimulationOptions options;
  if (options.max_steps < 1) return 1;
#endif
  return model.num_parameters() > 3'000'000'000 ? 0 : 1;
}
