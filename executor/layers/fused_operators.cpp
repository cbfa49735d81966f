// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/fused_operators.hpp"

#include "executor/layers/dispatched_operator.hpp"

namespace athanor::fused {
namespace {

using torch::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr std::int64_t kMultiple = 8;
constexpr std::int64_t kMostNormColumns = 12288;

/// Whether the operators are implemented for the device of `x`. A plugin implements all or none.
bool implemented_at(const Tensor& x) {
  static const c10::OperatorHandle any =
      c10::Dispatcher::singleton().findSchemaOrThrow("athanor::column_sum", "");
  return any.hasKernelForDispatchKey(x.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
}

}  // namespace

bool available(const Tensor& x) {
  const bool typed = x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16;
  return typed && x.size(-1) % kMultiple == 0 && implemented_at(x);
}

bool norm_available(const Tensor& x) { return available(x) && x.size(-1) <= kMostNormColumns; }

Tensor product(const Tensor& left, const Tensor& right, const MaybeTensor& bias) {
  static const Operator<Tensor(const Tensor&, const Tensor&, const MaybeTensor&)> call(
      "athanor::product");
  return call(left, right, bias);
}

void add_product(Tensor& sum, const Tensor& left, const Tensor& right) {
  static const Operator<void(Tensor&, const Tensor&, const Tensor&)> call("athanor::add_product_");
  call(sum, left, right);
}

void product_into(Tensor& result, const Tensor& left, const Tensor& right, const MaybeTensor& bias,
                  const MaybeTensor& addend) {
  static const Operator<void(Tensor&, const Tensor&, const Tensor&, const MaybeTensor&,
                             const MaybeTensor&)>
      call("athanor::product_into_");
  call(result, left, right, bias, addend);
}

Tensor column_sum(const Tensor& x) {
  static const Operator<Tensor(const Tensor&)> call("athanor::column_sum");
  return call(x);
}

Tensor activate(const Tensor& x, const std::string& activation) {
  static const Operator<Tensor(const Tensor&, c10::string_view)> call("athanor::activate");
  return call(x, activation);
}

std::tuple<Tensor, Tensor> activate_backward(const Tensor& grad_y, const Tensor& x,
                                             const std::string& activation) {
  static const Operator<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, c10::string_view)>
      call("athanor::activate_backward");
  return call(grad_y, x, activation);
}

std::tuple<Tensor, Tensor> concatenate(const Tensor& first, const Tensor& second,
                                       const Tensor& third) {
  static const Operator<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&)>
      call("athanor::concatenate");
  return call(first, second, third);
}

AddedNorm add_layer_norm(const MaybeTensor& x, const Tensor& residual, const Tensor& weight,
                         const Tensor& offset, double epsilon) {
  static const Operator<std::tuple<Tensor, Tensor, Tensor, Tensor>(
      const MaybeTensor&, const Tensor&, const Tensor&, const Tensor&, double)>
      call("athanor::add_layer_norm");
  auto [sum, normal, mean, inverse_deviation] = call(x, residual, weight, offset, epsilon);
  return {sum, normal, {mean, inverse_deviation}};
}

NormGradients layer_norm_backward(const Tensor& grad_normal, const MaybeTensor& grad_residual,
                                  const Tensor& x, const NormStatistics& statistics,
                                  const Tensor& weight, bool bias) {
  static const Operator<std::tuple<Tensor, Tensor, Tensor, Tensor>(
      const Tensor&, const MaybeTensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
      bool)>
      call("athanor::layer_norm_backward");
  auto [grad_x, grad_weight, grad_offset, grad_bias] = call(
      grad_normal, grad_residual, x, statistics.mean, statistics.inverse_deviation, weight, bias);
  return {grad_x, grad_weight, grad_offset, grad_bias};
}

RmsNormed rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  static const Operator<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, double)> call(
      "athanor::rms_norm");
  auto [normal, inverse_rms] = call(x, weight, epsilon);
  return {normal, inverse_rms};
}

RmsNormGradients rms_norm_backward(const Tensor& grad_normal, const MaybeTensor& grad_residual,
                                   const Tensor& x, const Tensor& inverse_rms,
                                   const Tensor& weight) {
  static const Operator<std::tuple<Tensor, Tensor>(const Tensor&, const MaybeTensor&, const Tensor&,
                                                   const Tensor&, const Tensor&)>
      call("athanor::rms_norm_backward");
  auto [grad_x, grad_weight] = call(grad_normal, grad_residual, x, inverse_rms, weight);
  return {grad_x, grad_weight};
}

Tensor gate(const Tensor& packed, const std::string& activation) {
  static const Operator<Tensor(const Tensor&, c10::string_view)> call("athanor::gate");
  return call(packed, activation);
}

GateGradients gate_backward(const Tensor& grad_y, const Tensor& packed,
                            const std::string& activation) {
  static const Operator<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, c10::string_view)>
      call("athanor::gate_backward");
  auto [grad_packed, y] = call(grad_y, packed, activation);
  return {grad_packed, y};
}

Tensor cross_entropy_in_place(Tensor& logits, const Tensor& targets, std::int64_t vocabulary,
                              bool with_gradients) {
  static const Operator<Tensor(Tensor&, const Tensor&, std::int64_t, bool)> call(
      "athanor::cross_entropy_");
  return call(logits, targets, vocabulary, with_gradients);
}

}  // namespace athanor::fused

TORCH_LIBRARY(athanor, library) {
  library.def("product(Tensor left, Tensor right, Tensor? bias) -> Tensor");
  library.def("add_product_(Tensor(a!) sum, Tensor left, Tensor right) -> ()");
  library.def(
      "product_into_(Tensor(a!) result, Tensor left, Tensor right, Tensor? bias, Tensor? addend)"
      " -> ()");
  library.def("column_sum(Tensor x) -> Tensor");
  library.def("activate(Tensor x, str activation) -> Tensor");
  library.def("activate_backward(Tensor grad_y, Tensor x, str activation) -> (Tensor, Tensor)");
  library.def("concatenate(Tensor first, Tensor second, Tensor third) -> (Tensor, Tensor)");
  library.def(
      "add_layer_norm(Tensor? x, Tensor residual, Tensor weight, Tensor offset, float epsilon)"
      " -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "layer_norm_backward(Tensor grad_normal, Tensor? grad_residual, Tensor x, Tensor mean,"
      " Tensor inverse_deviation, Tensor weight, bool bias)"
      " -> (Tensor, Tensor, Tensor, Tensor)");
  library.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> (Tensor, Tensor)");
  library.def(
      "rms_norm_backward(Tensor grad_normal, Tensor? grad_residual, Tensor x, Tensor inverse_rms,"
      " Tensor weight) -> (Tensor, Tensor)");
  library.def("gate(Tensor packed, str activation) -> Tensor");
  library.def("gate_backward(Tensor grad_y, Tensor packed, str activation) -> (Tensor, Tensor)");
  library.def(
      "cross_entropy_(Tensor(a!) logits, Tensor targets, int vocabulary, bool with_gradients)"
      " -> Tensor");
}
