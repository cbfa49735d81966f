// SPDX-License-Identifier: Apache-2.0
// Reads a config.json and prints, as JSON for check_parameter_names.py, the name and shape of every
// parameter and the config.json that an export would carry.
#include "sim/base/errors.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/architecture.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  return athanor::run_main("print_parameters", [&] {
    if (argc != 2) {
      throw athanor::InputError("print_parameters", "wrong arguments", "Give one config.json.");
    }
    const athanor::Architecture architecture = athanor::load_architecture(argv[1]);
    nlohmann::json shapes = nlohmann::json::object();
    for (const athanor::Unit& unit : architecture.units) {
      for (const athanor::Parameter& parameter : unit.parameters) {
        shapes[parameter.name] = parameter.shape;
      }
    }
    nlohmann::json exported;  // null for a model of which athanor knows the sizes alone
    if (architecture.language_model) {
      exported = nlohmann::json::parse(
          write_hf_config(*architecture.language_model, athanor::DataType::Float32));
    }
    std::cout << nlohmann::json{{"shapes", shapes}, {"config", exported}};
    return 0;
  });
}
