// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cudnn_attention.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cudnn/Handle.h>
#include <ATen/ops/empty.h>
#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace athanor::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorRef = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Sizes and strides of a tensor of heads, in cuDNN's order: batch, heads, sequence, head_dim.
struct Layout {
  std::array<std::int64_t, 4> sizes{}, strides{};
  auto operator<=>(const Layout&) const = default;
};

Layout layout_of(const at::Tensor& heads) {
  return {{heads.size(0), heads.size(2), heads.size(1), heads.size(3)},
          {heads.stride(0), heads.stride(2), heads.stride(1), heads.stride(3)}};
}

/// Everything that cuDNN's choice of kernels depends on.
struct Problem {
  c10::DeviceIndex device = 0;
  std::int64_t window = 0;
  bool deterministic = false;
  Layout query, key, value, out;
  auto operator<=>(const Problem&) const = default;
};

/// Names of a graph's tensors.
enum Name : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kLogSums,
  kGradOut,
  kGradQuery,
  kGradKey,
  kGradValue
};
using Pointers = std::unordered_map<fe::graph::Tensor_attributes::uid_t, void*>;

void check(fe::error_t status, const char* action) {
  TORCH_CHECK(status.is_good(), "attention by cuDNN: could not ", action, ": ",
              status.get_message());
}

/// A graph with its plan: attention of one shape, one way.
class Plan {
 public:
  Plan() {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  [[nodiscard]] TensorRef add(Name name, const Layout& layout) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(name)
                             .set_dim({layout.sizes.begin(), layout.sizes.end()})
                             .set_stride({layout.strides.begin(), layout.strides.end()}));
  }

  static void name(const TensorRef& output, Name name, const Layout& layout) {
    output->set_output(true)
        .set_uid(name)
        .set_dim({layout.sizes.begin(), layout.sizes.end()})
        .set_stride({layout.strides.begin(), layout.strides.end()});
  }

  /// Builds the plan. Afterwards possible() tells whether cuDNN has one.
  void build() {
    const cudnnHandle_t handle = at::native::getCudnnHandle();
    possible_ = graph_.build(handle, {fe::HeurMode_t::A}).is_good() &&
                graph_.get_workspace_size(workspace_bytes_).is_good();
  }

  [[nodiscard]] bool possible() const noexcept { return possible_; }
  [[nodiscard]] std::int64_t workspace_bytes() const noexcept { return workspace_bytes_; }
  [[nodiscard]] fe::graph::Graph& graph() noexcept { return graph_; }

  void run(Pointers& pointers, void* workspace) const {
    check(graph_.execute(at::native::getCudnnHandle(), pointers, workspace), "run");
  }

 private:
  fe::graph::Graph graph_;
  std::int64_t workspace_bytes_ = 0;
  bool possible_ = false;
};

/// Layout of log_sums, fp32 [batch, heads, sequence, 1] of `whole`, for the heads of `query`.
Layout log_sums_layout(const Layout& query, std::int64_t whole_heads) {
  const auto [batch, heads, sequence, dim] = query.sizes;
  return {{batch, heads, sequence, 1}, {whole_heads * sequence, sequence, 1, 1}};
}

template <typename Attributes>
Attributes attributes_of(const Problem& problem) {
  const double head_dim = static_cast<double>(problem.query.sizes[3]);
  Attributes attributes;
  attributes.set_causal_mask(true).set_attn_scale(static_cast<float>(1.0 / std::sqrt(head_dim)));
  const bool slides = problem.window > 0 && problem.window < problem.query.sizes[2];
  if (slides) attributes.set_diagonal_band_left_bound(static_cast<int>(problem.window));
  return attributes;
}

/// `whole_heads` is the number of heads of the tensors that the problem is a slice of.
std::unique_ptr<Plan> forward_plan(const Problem& problem) {
  auto plan = std::make_unique<Plan>();
  auto attributes = attributes_of<fe::graph::SDPA_attributes>(problem);
  attributes.set_generate_stats(true);
  const auto [out, log_sums] =
      plan->graph().sdpa(plan->add(kQuery, problem.query), plan->add(kKey, problem.key),
                         plan->add(kValue, problem.value), attributes);
  Plan::name(out, kOut, problem.out);
  Plan::name(log_sums, kLogSums, log_sums_layout(problem.query, problem.query.sizes[1]));
  log_sums->set_data_type(fe::DataType_t::FLOAT);
  plan->build();
  return plan;
}

/// Layouts of backward's gradients, beside those of the problem.
struct BackwardProblem {
  Problem problem;
  std::int64_t whole_heads = 0;  ///< query heads of the tensors that this is a slice of
  Layout grad_out, grad_query, grad_key, grad_value;
  auto operator<=>(const BackwardProblem&) const = default;
};

std::unique_ptr<Plan> backward_plan(const BackwardProblem& b) {
  const Problem& problem = b.problem;
  auto plan = std::make_unique<Plan>();
  auto attributes = attributes_of<fe::graph::SDPA_backward_attributes>(problem);
  attributes.set_deterministic_algorithm(problem.deterministic);
  const TensorRef log_sums = plan->add(kLogSums, log_sums_layout(problem.query, b.whole_heads));
  log_sums->set_data_type(fe::DataType_t::FLOAT);
  const auto [query, key, value] =
      plan->graph().sdpa_backward(plan->add(kQuery, problem.query), plan->add(kKey, problem.key),
                                  plan->add(kValue, problem.value), plan->add(kOut, problem.out),
                                  plan->add(kGradOut, b.grad_out), log_sums, attributes);
  Plan::name(query, kGradQuery, b.grad_query);
  Plan::name(key, kGradKey, b.grad_key);
  Plan::name(value, kGradValue, b.grad_value);
  plan->build();
  return plan;
}

/// Returns the plan of a problem, made at its first use. A plan serves every thread: running it
/// does not change it.
template <typename Key, typename Make>
const Plan& plan_of(const Key& problem, const Make& make) {
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<Plan>> plans;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plan>& plan = plans[problem];
  if (!plan) plan = make(problem);
  return *plan;
}

const Plan& forward_of(const Problem& problem) { return plan_of(problem, forward_plan); }
const Plan& backward_of(const BackwardProblem& problem) { return plan_of(problem, backward_plan); }

Problem problem_of(const AttentionInputs& inputs, const Layout& out) {
  return {inputs.query.device().index(),
          inputs.window,
          at::globalContext().deterministicAlgorithms(),
          layout_of(inputs.query),
          layout_of(inputs.key),
          layout_of(inputs.value),
          out};
}

/// Layout of a result of its own, with a token's heads side by side.
Layout packed_like(const Layout& query) {
  const auto [batch, heads, sequence, dim] = query.sizes;
  return {query.sizes, {sequence * heads * dim, dim, heads * dim, 1}};
}

/// Sequences and key heads that one call of backward takes.
struct Slice {
  std::int64_t sequences, key_heads;
};

/// Returns `problem` with the sequences and heads of a slice; strides stay.
BackwardProblem sliced(BackwardProblem b, const Slice& slice) {
  const std::int64_t group = b.problem.query.sizes[1] / b.problem.key.sizes[1];
  for (Layout* layout : {&b.problem.query, &b.problem.out, &b.grad_out, &b.grad_query}) {
    layout->sizes[0] = slice.sequences;
    layout->sizes[1] = slice.key_heads * group;
  }
  for (Layout* layout : {&b.problem.key, &b.problem.value, &b.grad_key, &b.grad_value}) {
    layout->sizes[0] = slice.sequences;
    layout->sizes[1] = slice.key_heads;
  }
  return b;
}

std::int64_t largest_divisor_below(std::int64_t number) {
  for (std::int64_t part = number / 2; part > 1; --part) {
    if (number % part == 0) return part;
  }
  return 1;
}

/// Returns the largest slice whose workspace is within the limit: fewer sequences first, then fewer
/// heads of one sequence. Nothing where no slice is, or cuDNN takes none.
std::optional<Slice> slice_of(const BackwardProblem& whole, std::size_t most_workspace) {
  Slice slice{whole.problem.key.sizes[0], whole.problem.key.sizes[1]};
  while (true) {
    const Plan& plan = backward_of(sliced(whole, slice));
    if (!plan.possible()) return std::nullopt;
    if (std::cmp_less_equal(plan.workspace_bytes(), most_workspace)) return slice;
    if (slice.sequences > 1) {
      slice.sequences = largest_divisor_below(slice.sequences);
    } else if (slice.key_heads > 1) {
      slice.key_heads = largest_divisor_below(slice.key_heads);
    } else {
      return std::nullopt;
    }
  }
}

BackwardProblem backward_problem(const Problem& problem, const Layout& grad_out,
                                 const Layout& grad_query, const Layout& grad_key,
                                 const Layout& grad_value) {
  return {problem, problem.query.sizes[1], grad_out, grad_query, grad_key, grad_value};
}

at::Tensor workspace(const Plan& plan, const at::Tensor& like) {
  return at::empty({plan.workspace_bytes()}, like.options().dtype(at::kByte));
}

/// Whether cuDNN is the fastest here: on Hopper and on Blackwell's large GPUs
/// (huggingface/transformers issues 48163 and 48324: 1.7 to 2.3 times LibTorch's on H100, 0.8
/// to 1.0 on A100, L40S and RTX PRO 6000).
bool is_fast_here() {
  const int major = at::cuda::getCurrentDeviceProperties()->major;
  return major == 9 || major == 10;
}

/// A slice's part of a tensor of heads [batch, sequence, heads, head_dim].
at::Tensor part_of(const at::Tensor& heads, std::int64_t sequence, const Slice& slice,
                   std::int64_t first_head, std::int64_t num_heads) {
  return heads.narrow(0, sequence, slice.sequences).narrow(2, first_head, num_heads);
}

void* data(const at::Tensor& tensor) { return tensor.data_ptr(); }

}  // namespace

bool cudnn_takes(const AttentionInputs& inputs, std::size_t most_workspace) {
  if (!is_fast_here()) return false;
  const Problem problem = problem_of(inputs, packed_like(layout_of(inputs.query)));
  if (!forward_of(problem).possible()) return false;
  const BackwardProblem backward =
      backward_problem(problem, problem.out, problem.query, problem.key, problem.value);
  return slice_of(backward, most_workspace).has_value();
}

CudnnAttended cudnn_attention(const AttentionInputs& inputs) {
  const at::Tensor& query = inputs.query;
  const Problem problem = problem_of(inputs, packed_like(layout_of(query)));
  const Plan& plan = forward_of(problem);
  CudnnAttended result{at::empty(query.sizes(), query.options()),
                       at::empty({query.size(0), query.size(2), query.size(1), 1},
                                 query.options().dtype(at::kFloat))};
  const at::Tensor memory = workspace(plan, query);
  Pointers pointers{{kQuery, data(query)},
                    {kKey, data(inputs.key)},
                    {kValue, data(inputs.value)},
                    {kOut, data(result.out)},
                    {kLogSums, data(result.log_sums)}};
  plan.run(pointers, data(memory));
  return result;
}

void cudnn_attention_backward(const at::Tensor& grad_out, const AttentionInputs& inputs,
                              const CudnnAttended& attended, std::size_t most_workspace,
                              const CudnnGradients& gradients) {
  const BackwardProblem whole = backward_problem(
      problem_of(inputs, layout_of(attended.out)), layout_of(grad_out), layout_of(gradients.query),
      layout_of(gradients.key), layout_of(gradients.value));
  const std::optional<Slice> slice = slice_of(whole, most_workspace);
  TORCH_CHECK(slice, "attention by cuDNN: no backward for tensors that forward took");
  const Plan& plan = backward_of(sliced(whole, *slice));
  const at::Tensor memory = workspace(plan, grad_out);
  const std::int64_t group = inputs.query.size(2) / inputs.key.size(2);
  for (std::int64_t sequence = 0; sequence < inputs.key.size(0); sequence += slice->sequences) {
    for (std::int64_t head = 0; head < inputs.key.size(2); head += slice->key_heads) {
      const auto of_queries = [&](const at::Tensor& heads) {
        return data(part_of(heads, sequence, *slice, head * group, slice->key_heads * group));
      };
      const auto of_keys = [&](const at::Tensor& heads) {
        return data(part_of(heads, sequence, *slice, head, slice->key_heads));
      };
      const at::Tensor log_sums = attended.log_sums.narrow(0, sequence, slice->sequences)
                                      .narrow(1, head * group, slice->key_heads * group);
      Pointers pointers{
          {kQuery, of_queries(inputs.query)},        {kKey, of_keys(inputs.key)},
          {kValue, of_keys(inputs.value)},           {kOut, of_queries(attended.out)},
          {kGradOut, of_queries(grad_out)},          {kLogSums, data(log_sums)},
          {kGradQuery, of_queries(gradients.query)}, {kGradKey, of_keys(gradients.key)},
          {kGradValue, of_keys(gradients.value)}};
      plan.run(pointers, data(memory));
    }
  }
}

}  // namespace athanor::cuda
