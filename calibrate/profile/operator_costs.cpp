// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/operator_costs.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace athanor {
namespace {

/// Matrix product of the arguments `left` and `right`.
struct Product {
  std::string_view name, left, right;
};
constexpr std::array kProducts{Product{"aten::mm", "self", "mat2"},
                               Product{"aten::bmm", "self", "mat2"},
                               Product{"aten::addmm", "mat1", "mat2"},
                               Product{"aten::addmm_", "mat1", "mat2"},
                               Product{"aten::baddbmm", "batch1", "batch2"},
                               Product{"aten::baddbmm_", "batch1", "batch2"},
                               Product{"aten::_addmm_activation", "mat1", "mat2"},
                               Product{"athanor::product", "left", "right"},
                               Product{"athanor::add_product_", "left", "right"},
                               Product{"athanor::product_into_", "left", "right"}};

/// Operators that write their first argument and do not read it.
constexpr std::array<std::string_view, 3> kOverwriting{"aten::copy_", "aten::fill_", "aten::zero_"};
/// Operators that read as much of their first argument as they write.
constexpr std::array<std::string_view, 3> kLookups{"aten::embedding", "aten::gather",
                                                   "aten::index_select"};
/// Operators that read and write an unknown part of their first argument.
constexpr std::array<std::string_view, 4> kScatters{"aten::scatter_", "aten::scatter_add_",
                                                    "aten::index_add_", "aten::index_put_"};

template <std::size_t kSize>
bool is_one_of(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const c10::IValue* argument(const OperatorCall& call, std::string_view name) {
  const auto& arguments = call.schema.arguments();
  for (std::size_t i = 0; i < std::min(arguments.size(), call.inputs.size()); ++i) {
    if (arguments[i].name() == name) return &call.inputs[i];
  }
  return nullptr;
}

/// Returns an undefined tensor if there is no such argument, or no tensor in it.
at::Tensor tensor(const OperatorCall& call, std::string_view name) {
  const c10::IValue* const value = argument(call, name);
  return value != nullptr && value->isTensor() ? value->toTensor() : at::Tensor();
}

bool is_causal(const OperatorCall& call) {
  if (call.schema.name().starts_with("athanor::attention")) return true;
  for (const char* name : {"is_causal", "causal"}) {
    const c10::IValue* const value = argument(call, name);
    if (value != nullptr && value->isBool()) return value->toBool();
  }
  constexpr std::int64_t kCausalFromTopLeft = 1;  // in memory-efficient attention
  const c10::IValue* const mask = argument(call, "custom_mask_type");
  return mask != nullptr && mask->isInt() && mask->toInt() == kCausalFromTopLeft;
}

/// Queries and keys are [batch, heads, sequence, dim] for scaled_dot_product_* and cuDNN, and
/// [batch, sequence, heads, dim] for flash and memory-efficient attention, which it calls.
double attention_flops(const OperatorCall& call) {
  constexpr double kForward = 4;    // two products of 2 FLOPs for each multiply-add
  constexpr double kBackward = 10;  // five
  constexpr std::int64_t kDimensions = 4;
  const std::string& name = call.schema.name();
  const at::Tensor query = tensor(call, "query");
  const at::Tensor key = tensor(call, "key");
  if (!query.defined() || !key.defined()) return 0;
  if (query.dim() != kDimensions || key.dim() != kDimensions) return 0;
  const bool heads_first =
      name.starts_with("aten::_scaled_dot_product") || name.starts_with("aten::_cudnn");
  const std::int64_t keys = key.size(heads_first ? 2 : 1);
  const double factor = name.find("backward") != std::string::npos ? kBackward : kForward;
  return factor * static_cast<double>(query.numel()) * static_cast<double>(keys) *
         (is_causal(call) ? 0.5 : 1.0);
}

double tensor_bytes(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.is_sparse()) return 0;
  double elements = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) != 0) elements *= static_cast<double>(tensor.size(i));
  }
  return elements * static_cast<double>(tensor.element_size());
}

double value_bytes(const c10::IValue& value) {
  if (value.isTensor()) return tensor_bytes(value.toTensor());
  double bytes = 0;
  if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) bytes += tensor_bytes(each);
  }
  return bytes;
}

bool skips_first(std::string_view name) {
  return is_one_of(kOverwriting, name) || is_one_of(kLookups, name) || is_one_of(kScatters, name);
}

}  // namespace

double operator_flops(const OperatorCall& call) {
  const std::string& name = call.schema.name();
  for (const Product& product : kProducts) {
    if (product.name != name) continue;
    const at::Tensor left = tensor(call, product.left);
    const at::Tensor right = tensor(call, product.right);
    if (!left.defined() || !right.defined() || right.dim() == 0) return 0;
    return 2 * static_cast<double>(left.numel()) * static_cast<double>(right.size(-1));
  }
  return name.find("attention") != std::string::npos ? attention_flops(call) : 0;
}

double operator_input_bytes(const OperatorCall& call) {
  const auto& arguments = call.schema.arguments();
  const std::size_t count = std::min(arguments.size(), call.inputs.size());
  double bytes = 0;
  for (std::size_t i = skips_first(call.schema.name()) ? 1 : 0; i < count; ++i) {
    if (!arguments[i].is_out()) bytes += value_bytes(call.inputs[i]);
  }
  return bytes;
}

double operator_output_bytes(const std::string& name, const std::vector<c10::IValue>& outputs) {
  if (is_one_of(kScatters, name)) return 0;
  double bytes = 0;
  for (const c10::IValue& output : outputs) bytes += value_bytes(output);
  return is_one_of(kLookups, name) ? 2 * bytes : bytes;
}

}  // namespace athanor
