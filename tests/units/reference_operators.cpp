// SPDX-License-Identifier: Apache-2.0
// Defines the fused operators on the host by LibTorch's operators. They are linked into tests only;
// units on the host then take the same path as on a GPU.
#include <torch/library.h>
#include <torch/types.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>

namespace {

using torch::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor product(const Tensor& left, const Tensor& right, const MaybeTensor& bias) {
  return bias ? at::addmm(*bias, left, right) : at::mm(left, right);
}

void add_product(Tensor& sum, const Tensor& left, const Tensor& right) { sum.addmm_(left, right); }

Tensor column_sum(const Tensor& x) { return x.flatten(0, -2).sum(0); }

Tensor activate(const Tensor& x, c10::string_view activation) {
  if (activation == "gelu_new") return at::gelu(x, "tanh");
  if (activation == "gelu") return at::gelu(x, "none");
  return activation == "relu" ? at::relu(x) : at::silu(x);
}

Tensor curve_backward(const Tensor& gradient, const Tensor& x, c10::string_view activation) {
  if (activation == "gelu_new") return at::gelu_backward(gradient, x, "tanh");
  if (activation == "gelu") return at::gelu_backward(gradient, x, "none");
  return activation == "relu" ? at::threshold_backward(gradient, x, 0)
                              : at::silu_backward(gradient, x);
}

std::tuple<Tensor, Tensor> activate_backward(const Tensor& grad_y, const Tensor& x,
                                             c10::string_view activation) {
  const Tensor grad_x = curve_backward(grad_y.contiguous(), x, activation);
  return {grad_x, column_sum(grad_x)};
}

std::tuple<Tensor, Tensor> concatenate(const Tensor& first, const Tensor& second,
                                       const Tensor& third) {
  const Tensor whole = torch::cat({first, second, third}, -1);
  return {whole, column_sum(whole)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> add_layer_norm(const MaybeTensor& x,
                                                          const Tensor& residual,
                                                          const Tensor& weight,
                                                          const Tensor& offset, double epsilon) {
  const Tensor sum = x ? *x + residual : Tensor();
  const auto [normal, mean, inverse_deviation] =
      at::native_layer_norm(x ? sum : residual, weight.sizes(), weight, offset, epsilon);
  return {sum, normal, mean, inverse_deviation};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad_normal,
                                                               const MaybeTensor& grad_residual,
                                                               const Tensor& x, const Tensor& mean,
                                                               const Tensor& inverse_deviation,
                                                               const Tensor& weight, bool bias) {
  const auto [grad_x, grad_weight, grad_offset] = at::native_layer_norm_backward(
      grad_normal, x, weight.sizes(), mean, inverse_deviation, weight, weight, {true, true, true});
  const Tensor whole = grad_residual ? grad_x + *grad_residual : grad_x;
  return {whole, grad_weight, grad_offset, bias ? column_sum(whole) : Tensor()};
}

Tensor cross_entropy(Tensor& logits, const Tensor& targets, std::int64_t vocabulary,
                     bool with_gradients) {
  Tensor used = logits.slice(1, 0, vocabulary);
  const Tensor log_probabilities = at::log_softmax(used, 1, torch::kFloat32);
  const Tensor ids = targets.view({-1, 1});
  const Tensor known = ids.ge(0).logical_and(ids.lt(vocabulary));
  const Tensor safe = ids.clamp(0, vocabulary - 1);
  const Tensor losses =
      log_probabilities.gather(1, safe).neg().where(known, torch::full({}, NAN)).view({-1});
  if (with_gradients) {
    const Tensor gradient = log_probabilities.exp();
    gradient.scatter_(1, safe, gradient.gather(1, safe) - 1.0);
    used.copy_(gradient);
  }
  return losses;
}

}  // namespace

TORCH_LIBRARY_IMPL(athanor, CPU, library) {
  library.impl("product", product);
  library.impl("add_product_", add_product);
  library.impl("column_sum", column_sum);
  library.impl("activate", activate);
  library.impl("activate_backward", activate_backward);
  library.impl("concatenate", concatenate);
  library.impl("add_layer_norm", add_layer_norm);
  library.impl("layer_norm_backward", layer_norm_backward);
  library.impl("cross_entropy_", cross_entropy);
}
