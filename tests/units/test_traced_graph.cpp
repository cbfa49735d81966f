// SPDX-License-Identifier: Apache-2.0
// Graphs as torch.jit.trace writes them: sizes are tensors there, computed from constants.
#include "executor/traced/traced_graph.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/utils.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace athanor {
namespace {

using torch::jit::Graph;
using torch::jit::Value;

/// Returns x[:, : x.size(1) // 2] * table, as a trace has it: half the size is a tensor.
std::shared_ptr<Graph> first_half_times_table(const torch::jit::Module& module) {
  auto graph = std::make_shared<Graph>();
  Value* const self = graph->addInput("self")->setType(module.type());
  Value* const x = graph->addInput("x");
  const auto number = [&](const c10::IValue& value) { return graph->insertConstant(value); };
  const auto apply = [&](c10::Symbol kind, std::vector<Value*> inputs, const c10::TypePtr& type) {
    return graph->insertNode(graph->create(kind, inputs))->output()->setType(type);
  };
  const auto tensor = c10::TensorType::get();
  const auto integer = c10::IntType::get();
  Value* const one = number(1);
  Value* const size = apply(c10::aten::size, {x, one}, integer);
  Value* const size_tensor = apply(c10::prim::NumToTensor, {size}, tensor);
  Value* const half =
      apply(c10::aten::floor_divide, {size_tensor, number(torch::tensor(2))}, tensor);
  Value* const end = apply(c10::aten::Int, {half}, integer);
  Value* const part = apply(c10::aten::slice, {x, one, number(0), end, one}, tensor);
  Value* const table = graph->insertGetAttr(self, "table");
  graph->registerOutput(apply(c10::aten::mul, {part, table}, tensor));
  return graph;
}

void write_graph(const std::filesystem::path& file) {
  torch::jit::Module module("traced");
  module.register_buffer("table", torch::full({3}, 10.0F));
  torch::jit::Function* const forward = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), first_half_times_table(module));
  module.type()->addMethod(forward);
  module.save(file.string());
}

}  // namespace

TEST_CASE("sizes in a traced graph are computed on the host") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = std::filesystem::path(folder.path()) / "graph.pt";
  write_graph(file);
  TracedGraph graph(file.string());
  const torch::Tensor x = torch::arange(12).view({2, 6}).to(torch::kFloat32);
  CHECK(torch::equal(graph.run({x}), x.slice(1, 0, 3) * 10));
  // A device without memory stands for a GPU: a size that were computed there could not be read.
  const torch::Tensor elsewhere = graph.run({x.to(torch::kMeta)});
  CHECK(elsewhere.is_meta());
  CHECK(elsewhere.sizes() == c10::IntArrayRef({2, 3}));
}

}  // namespace athanor
