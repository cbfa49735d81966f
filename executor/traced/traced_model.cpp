// SPDX-License-Identifier: Apache-2.0
#include "executor/traced/traced_model.hpp"

#include "executor/layers/head_loss.hpp"
#include "executor/traced/traced_graph.hpp"
#include "executor/units/random_tokens.hpp"
#include "executor/units/torch_types.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <torch/utils.h>

#include <map>
#include <string>
#include <utility>

namespace athanor {

namespace {

/// Parameters of a model by name, as the units before own them.
using Owners = std::map<std::string, torch::Tensor>;

class TracedUnit final : public UnitModule {
 public:
  TracedUnit(const Unit& unit, const TracedUnitGraph& description,
             std::shared_ptr<TracedGraph> graph, Owners& owners, DataType dtype)
      : graph_(std::move(graph)) {
    for (const Parameter& parameter : unit.parameters) {
      owners[parameter.name] = register_parameter(
          "parameter_" + std::to_string(parameters().size()),
          torch::empty(parameter.shape, torch::TensorOptions().dtype(torch_dtype(dtype))));
    }
    for (const Borrow& borrow : unit.borrows) {
      borrowed_.emplace_back(borrow.unit, owners.at(borrow.parameter));
    }
    for (const std::string& name : description.parameters) taken_.push_back(owners.at(name));
  }

  /// Makes the graph take each token's place in its document, and its document's number.
  void take_documents() { takes_documents_ = true; }
  /// Makes the output hidden states that `weight` projects to logits.
  void end_in_projection(const torch::Tensor& weight) { projection_ = weight; }
  void end_in_logits() { ends_in_logits_ = true; }

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    std::vector<torch::Tensor> arguments{activation.defined() ? std::move(activation)
                                                              : batch.inputs};
    if (takes_documents_) add_documents(batch, arguments);
    arguments.insert(arguments.end(), taken_.begin(), taken_.end());
    torch::Tensor output = graph_->run(arguments);
    if (projection_.defined()) {
      return next_token_loss(output, projection_, batch.targets, batch.packing);
    }
    return ends_in_logits_ ? loss_of_logits(output, batch.targets, batch.packing) : output;
  }

  [[nodiscard]] std::vector<std::pair<int, torch::Tensor>> borrowed() const override {
    return borrowed_;
  }

 private:
  static void add_documents(const Batch& batch, std::vector<torch::Tensor>& arguments) {
    const torch::Tensor positions =
        batch.packing
            ? batch.packing->positions
            : at::arange(batch.inputs.size(1), batch.inputs.options()).expand_as(batch.inputs);
    arguments.push_back(positions);
    arguments.push_back((positions == 0).cumsum(1));
  }

  std::shared_ptr<TracedGraph> graph_;
  std::vector<torch::Tensor> taken_;  ///< parameters that the graph takes, in its order
  std::vector<std::pair<int, torch::Tensor>> borrowed_;
  torch::Tensor projection_;
  bool ends_in_logits_ = false, takes_documents_ = false;
};

void check_sequence(const TracedFolder& folder, std::int64_t sequence_length) {
  const std::int64_t traced = folder.architecture.traced.value().sequence_length;
  if (sequence_length == traced) return;
  throw InputError(
      folder.architecture.name + ":sequence_length",
      fmt::format("{} tokens, and the model was traced for {}", sequence_length, traced),
      fmt::format("Use --seq {}, or trace the model again with --seq {}.", traced,
                  sequence_length));
}

}  // namespace

void check_arguments(const std::string& file, TracedGraph& graph, std::size_t num_given) {
  if (graph.num_arguments() == num_given) return;
  throw InputError(file,
                   fmt::format("takes {} tensors, and traced.json gives it {}",
                               graph.num_arguments(), num_given),
                   "Trace the model again with `athanor trace`.");
}

Model make_traced_model(const TracedFolder& folder, DataType dtype, std::int64_t sequence_length) {
  check_sequence(folder, sequence_length);
  Model model;
  model.architecture = folder.architecture;
  model.dtype = dtype;
  Owners owners;
  std::map<std::string, std::shared_ptr<TracedGraph>> graphs;
  std::shared_ptr<TracedUnit> last;
  for (std::size_t i = 0; i < folder.graphs.size(); ++i) {
    const std::string file = folder.graph_file(static_cast<int>(i), dtype).string();
    std::shared_ptr<TracedGraph>& graph = graphs[file];
    if (!graph) graph = std::make_shared<TracedGraph>(file);
    last = std::make_shared<TracedUnit>(folder.architecture.units[i], folder.graphs[i], graph,
                                        owners, dtype);
    const bool is_layer = i > 0 && i + 1 < folder.graphs.size();
    const bool takes_documents = is_layer && folder.architecture.traced->documents;
    if (takes_documents) last->take_documents();
    constexpr std::size_t kHidden = 1, kDocuments = 2;
    check_arguments(
        file, *graph,
        kHidden + (takes_documents ? kDocuments : 0) + folder.graphs[i].parameters.size());
    model.units.push_back(last);
  }
  if (folder.projection) {
    last->end_in_projection(owners.at(*folder.projection));
  } else {
    last->end_in_logits();
  }
  model.random_batch = random_tokens(folder.architecture.traced->vocab_size, sequence_length);
  return model;
}

}  // namespace athanor
