// SPDX-License-Identifier: Apache-2.0
#include "executor/traced/traced_graph.hpp"

#include "sim/base/errors.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <utility>

namespace athanor {

namespace {

/// Puts a constant onto the device. A device that an operation names is replaced: a layer is traced
/// without memory. Whole numbers stay on the host: sizes are computed from them, and each that a
/// GPU computed would have to be waited for.
void place(torch::jit::Node& constant, torch::Device device) {
  const c10::TypeKind type = constant.output()->type()->kind();
  if (type == c10::TypeKind::DeviceObjType) constant.s_(c10::attr::value, device.str());
  if (type != c10::TypeKind::TensorType || !constant.hasAttribute(c10::attr::value)) return;
  const torch::Tensor value = constant.t(c10::attr::value);
  if (value.is_floating_point()) constant.t_(c10::attr::value, value.to(device));
}

void place(torch::jit::Block* block, torch::Device device) {
  for (torch::jit::Node* node : block->nodes()) {
    for (torch::jit::Block* inner : node->blocks()) place(inner, device);
    if (node->kind() == c10::prim::Constant) place(*node, device);
  }
}

torch::jit::Module load(const std::string& file, torch::Device device) {
  try {
    torch::jit::Module module = torch::jit::load(file, torch::kCPU);
    for (const auto& table : module.named_buffers(/*recurse=*/false)) {
      module.setattr(table.name, table.value.to(device));
    }
    place(module.get_method("forward").graph()->block(), device);
    module.eval();
    return module;
  } catch (const c10::Error& error) {
    throw InputError(file, "cannot be read: " + std::string(error.what_without_backtrace()),
                     "Trace the model again with `athanor trace`.");
  }
}

}  // namespace

struct TracedGraph::Loaded {
  torch::jit::Module module;
};

TracedGraph::TracedGraph(std::string file) : file_(std::move(file)) { (void)on(torch::kCPU); }

TracedGraph::~TracedGraph() = default;

TracedGraph::Loaded& TracedGraph::on(torch::Device device) {
  std::unique_ptr<Loaded>& loaded = by_device_[device.str()];
  if (!loaded) loaded = std::make_unique<Loaded>(Loaded{load(file_, device)});
  return *loaded;
}

std::size_t TracedGraph::num_arguments() {
  return on(torch::kCPU).module.get_method("forward").num_inputs() - 1;  // the module is one
}

torch::Tensor TracedGraph::run(const std::vector<torch::Tensor>& arguments) {
  // The optimizer of graphs fuses operations after some runs. A loss would then depend on how often
  // a unit ran, that is, on the plan.
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  std::vector<c10::IValue> values(arguments.begin(), arguments.end());
  return on(arguments.front().device()).module.forward(std::move(values)).toTensor();
}

}  // namespace athanor
