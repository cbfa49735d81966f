// SPDX-License-Identifier: Apache-2.0
#include "sim/model/kernel_classes.hpp"

#include <algorithm>
#include <array>

namespace athanor {
namespace {

struct Rule {
  std::string_view part;
  KernelClass kind;
};

/// Rules in order of precedence: the first whose part the name contains decides. Libraries build on
/// each other, so attention comes before the CUTLASS that it is made of. A copy or a loss comes
/// before the loop over elements or the reduction that runs it.
constexpr std::array kRules{
    Rule{"Memcpy DtoD", KernelClass::Copy},
    Rule{"Memcpy", KernelClass::Transfer},
    Rule{"Memset", KernelClass::Copy},
    Rule{"nccl", KernelClass::Communication},
    Rule{"flash", KernelClass::Attention},
    Rule{"fmha", KernelClass::Attention},
    Rule{"attention", KernelClass::Attention},
    Rule{"sdpa", KernelClass::Attention},
    Rule{"cudnn::fusion", KernelClass::Attention},
    Rule{"adam", KernelClass::Optimizer},
    Rule{"Adam", KernelClass::Optimizer},
    Rule{"multi_tensor_apply", KernelClass::Optimizer},
    Rule{"nvjet", KernelClass::MatrixProduct},
    Rule{"gemm", KernelClass::MatrixProduct},
    Rule{"gemv", KernelClass::MatrixProduct},
    Rule{"cutlass", KernelClass::MatrixProduct},
    Rule{"xmma", KernelClass::MatrixProduct},
    Rule{"splitKreduce", KernelClass::MatrixProduct},
    Rule{"cublasLt", KernelClass::MatrixProduct},
    Rule{"_mm_", KernelClass::MatrixProduct},
    Rule{"layer_norm", KernelClass::Normalisation},
    Rule{"LayerNorm", KernelClass::Normalisation},
    Rule{"rms_norm", KernelClass::Normalisation},
    Rule{"RMSNorm", KernelClass::Normalisation},
    Rule{"batch_norm", KernelClass::Normalisation},
    Rule{"group_norm", KernelClass::Normalisation},
    Rule{"GammaBeta", KernelClass::Normalisation},
    Rule{"cuComputeGradInput", KernelClass::Normalisation},
    Rule{"RowwiseMoments", KernelClass::Normalisation},
    Rule{"LogSoftMax", KernelClass::Loss},
    Rule{"log_softmax", KernelClass::Loss},
    Rule{"nll_loss", KernelClass::Loss},
    Rule{"CrossEntropy", KernelClass::Loss},
    Rule{"cross_entropy", KernelClass::Loss},
    Rule{"copy_kernel", KernelClass::Copy},
    Rule{"CatArray", KernelClass::Copy},
    Rule{"FillFunctor", KernelClass::Copy},
    Rule{"embedding", KernelClass::Indexing},
    Rule{"gather", KernelClass::Indexing},
    Rule{"scatter", KernelClass::Indexing},
    Rule{"index", KernelClass::Indexing},
    Rule{"compute_grad_weight", KernelClass::Indexing},
    Rule{"sum_and_scatter", KernelClass::Indexing},
    Rule{"segment", KernelClass::Indexing},
    Rule{"RadixSort", KernelClass::Indexing},
    Rule{"elementwise", KernelClass::Elementwise},
    Rule{"column_kernel", KernelClass::Elementwise},
    Rule{"rotate", KernelClass::Elementwise},
    Rule{"softmax", KernelClass::Reduction},
    Rule{"SoftMax", KernelClass::Reduction},
    Rule{"reduce", KernelClass::Reduction},
    Rule{"Reduce", KernelClass::Reduction},
    Rule{"Scan", KernelClass::Reduction},
    Rule{"triton_poi_", KernelClass::Elementwise},
    Rule{"triton_red_", KernelClass::Reduction},
    Rule{"triton_per_", KernelClass::Reduction},
    Rule{"triu_tril", KernelClass::Elementwise},
    Rule{"dropout", KernelClass::Elementwise},
};

/// Position of the parameter list at the end of a demangled function; npos where there is none.
std::size_t parameters_begin(std::string_view name) {
  if (!name.ends_with(')')) return std::string_view::npos;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

bool is_activity_of_cupti(std::string_view name) {
  return name.starts_with("Memcpy ") || name.starts_with("Memset ");
}

void remove_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

}  // namespace

KernelClass kernel_class(std::string_view name) noexcept {
  const auto* const rule = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) {
    return name.find(r.part) != std::string_view::npos;
  });
  return rule != kRules.end() ? rule->kind : KernelClass::Other;
}

bool is_product(KernelClass kind) noexcept {
  return kind == KernelClass::MatrixProduct || kind == KernelClass::Attention;
}

std::string short_kernel_name(std::string_view name) {
  constexpr std::size_t kLongest = 96;
  constexpr std::string_view kReturnType = "void ";
  if (is_activity_of_cupti(name)) return std::string(name);
  if (name.starts_with(kReturnType)) name.remove_prefix(kReturnType.size());
  std::string text(name.substr(0, parameters_begin(name)));
  remove_all(text, "(anonymous namespace)::");
  remove_all(text, "at::native::");
  if (text.size() > kLongest) text = text.substr(0, kLongest - 2) + "..";
  return text.empty() ? "unnamed" : text;
}

}  // namespace athanor
