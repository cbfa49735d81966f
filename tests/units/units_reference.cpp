// SPDX-License-Identifier: Apache-2.0
// Runs Hugging Face folders for reference.py and tests/vision/reference.py. Reads commands, one a
// line with tabs between its words, and answers "done" to each (tests/support/served_program.py):
//   gradients FOLDER BATCH.safetensors OUT.safetensors
//   export FOLDER NEW_FOLDER float32|bfloat16 MAX_SHARD_BYTES
#include "executor/io/hf_folder_reader.hpp"
#include "executor/io/hf_folder_writer.hpp"
#include "executor/traced/make_model.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"
#include "tests/units/unit_chain.hpp"

#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace athanor;

torch::Tensor read_tensor(const SafetensorsReader& file, const std::string& name, TensorType type) {
  const TensorEntry* tensor = file.find(name);
  if (tensor == nullptr || tensor->type != type) {
    throw InputError(file.path() + ":" + name, "no such tensor of this type", "See reference.py.");
  }
  const torch::Tensor values =
      torch::empty(tensor->shape, type == TensorType::I64 ? torch::kInt64 : torch::kFloat32);
  std::memcpy(values.data_ptr(), file.data(*tensor).data(), values.nbytes());
  return values;
}

torch::Tensor read_tokens(const SafetensorsReader& file, const std::string& name) {
  return read_tensor(file, name, TensorType::I64);
}

/// Makes the packing of sequences from flags on documents' first tokens and on learnt targets.
Packing packing_of(const torch::Tensor& starts, const torch::Tensor& learnt) {
  Packing packing;
  packing.ignored = learnt == 0;
  packing.mean_targets = learnt.sum().item<double>();
  packing.positions = torch::empty_like(starts);
  for (std::int64_t row = 0; row < starts.size(0); ++row) {
    std::vector<std::int64_t>& of_row = packing.document_starts.emplace_back();
    for (std::int64_t i = 0; i < starts.size(1); ++i) {
      if (starts[row][i].item<bool>()) of_row.push_back(i);
      packing.positions[row][i] = i - of_row.back();
    }
  }
  return packing;
}

std::vector<float> read_unit(const HfFolder& folder, int unit, std::int64_t elements) {
  std::vector<float> flat(static_cast<std::size_t>(elements));
  folder.read_unit(unit, flat);
  return flat;
}

void write_gradients(const test::UnitChain& chain, float loss, const std::string& path) {
  std::vector<TensorEntry> entries{{"loss", TensorType::F32, {}, 0}};
  const std::vector<Unit>& units = chain.model().architecture.units;
  for (const Unit& unit : units) {
    for (const Parameter& p : unit.parameters) {
      entries.push_back({p.name, TensorType::F32, p.shape, 0});
    }
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  writer.write("loss", std::span<const float>(&loss, 1));
  for (int i = 0; i < static_cast<int>(units.size()); ++i) {
    for (int j = 0; j < static_cast<int>(units[i].parameters.size()); ++j) {
      const torch::Tensor gradient = chain.view(chain.gradients(i), i, j).contiguous();
      writer.write(units[i].parameters[j].name,
                   std::span<const float>(gradient.data_ptr<float>(), gradient.numel()));
    }
  }
  writer.finish();
}

void run_gradients(const std::string& path, const std::string& tokens, const std::string& out) {
  const HfFolder folder(path);
  const SafetensorsReader file(tokens);
  const auto& images = folder.architecture().image_classifier;
  Batch batch{read_tensor(file, "inputs", images ? TensorType::F32 : TensorType::I64),
              read_tokens(file, "targets")};
  if (file.find("starts") != nullptr) {
    batch.packing = packing_of(read_tokens(file, "starts"), read_tokens(file, "learnt"));
  }
  const std::int64_t tokens_per_sample = images ? images->num_tokens() : batch.inputs.size(1);
  test::UnitChain chain(
      make_model(folder.architecture(), path, DataType::Float32, tokens_per_sample));
  for (int i = 0; i < static_cast<int>(chain.model().units.size()); ++i) {
    chain.set_parameters(i, read_unit(folder, i, chain.elements(i)));
  }
  const float loss = chain.step(batch);
  write_gradients(chain, loss, out);
}

void run_export(const std::string& path, const std::string& out, const std::string& dtype,
                Bytes max_shard_bytes) {
  const HfFolder folder(path);
  HfFolderWriter writer(out, folder.architecture(),
                        dtype == "float32" ? DataType::Float32 : DataType::BFloat16,
                        read_export_source(path), max_shard_bytes);
  const std::vector<Unit>& units = folder.architecture().units;
  for (int i = 0; i < static_cast<int>(units.size()); ++i) {
    std::int64_t elements = 0;
    (void)parameter_offsets(units[i], elements);
    writer.write_unit(i, read_unit(folder, i, elements));
  }
  writer.finish();
}

void run(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream text(line);
  for (std::string word; std::getline(text, word, '\t');) words.push_back(word);
  if (words.size() == 4 && words[0] == "gradients") {
    run_gradients(words[1], words[2], words[3]);
  } else if (words.size() == 5 && words[0] == "export") {
    run_export(words[1], words[2], words[3], std::stoll(words[4]));
  } else {
    throw InputError("standard input", "no such command: " + line,
                     "They are at the head of units_reference.cpp.");
  }
}

int run_all() {
  for (std::string line; std::getline(std::cin, line);) {
    run(line);
    std::cout << "done" << std::endl;
  }
  return kExitDone;
}

}  // namespace

int main() { return run_main("units_reference", run_all); }
