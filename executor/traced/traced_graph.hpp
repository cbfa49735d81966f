// SPDX-License-Identifier: Apache-2.0
// A function of tensors that was traced in Python, run by LibTorch.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace athanor {

/// A traced function. Its constants are loaded to a device when it first runs there, and stay.
class TracedGraph {
 public:
  /// Loads the file to the host. Throws InputError where it is no graph of this project.
  explicit TracedGraph(std::string file);
  ~TracedGraph();
  TracedGraph(const TracedGraph&) = delete;
  TracedGraph& operator=(const TracedGraph&) = delete;

  /// Number of tensors that run() takes.
  [[nodiscard]] std::size_t num_arguments();
  /// Runs on the device of `arguments.front()`. Autograd records every operation as in eager mode.
  [[nodiscard]] torch::Tensor run(const std::vector<torch::Tensor>& arguments);

 private:
  struct Loaded;
  [[nodiscard]] Loaded& on(torch::Device device);

  std::string file_;
  std::map<std::string, std::unique_ptr<Loaded>> by_device_;
};

}  // namespace athanor
