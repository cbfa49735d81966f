// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/operators/cudnn_attention.hpp"

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

/// Layout of log_sums, fp32 [batch, heads, sequence, 1], for the heads of `query`. It has no gaps,
/// as cuDNN wants it: a slice takes one sequence or all heads.
Layout log_sums_layout(const Layout& query) {
  const auto [batch, heads, sequence, dim] = query.sizes;
  return {{batch, heads, sequence, 1}, {heads * sequence, sequence, 1, 1}};
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

std::unique_ptr<Plan> forward_plan(const Problem& problem) {
  auto plan = std::make_unique<Plan>();
  auto attributes = attributes_of<fe::graph::SDPA_attributes>(problem);
  attributes.set_generate_stats(true);
  const auto [out, log_sums] =
      plan->graph().sdpa(plan->add(kQuery, problem.query), plan->add(kKey, problem.key),
                         plan->add(kValue, problem.value), attributes);
  Plan::name(out, kOut, problem.out);
  Plan::name(log_sums, kLogSums, log_sums_layout(problem.query));
  log_sums->set_data_type(fe::DataType_t::FLOAT);
  plan->build();
  return plan;
}

/// Layouts of backward's gradients, beside those of the problem.
struct BackwardProblem {
  Problem problem;
  Layout grad_out, grad_query, grad_key, grad_value;
  auto operator<=>(const BackwardProblem&) const = default;
};

std::unique_ptr<Plan> backward_plan(const BackwardProblem& b) {
  const Problem& problem = b.problem;
  auto plan = std::make_unique<Plan>();
  auto attributes = attributes_of<fe::graph::SDPA_backward_attributes>(problem);
  attributes.set_deterministic_algorithm(problem.deterministic);
  const TensorRef log_sums = plan->add(kLogSums, log_sums_layout(problem.query));
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

Problem problem_of(const AttentionInputs& inputs, const Layout& out, bool deterministic = true) {
  return {inputs.query.device().index(),
          inputs.window,
          deterministic,
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

/// Part of a problem that one call of backward takes: sequences, key heads, and one of `parts`
/// parts of each key head's query heads. With several parts a call takes one key head, and the
/// gradients of its key and value are added.
struct Slice {
  std::int64_t sequences, key_heads, parts = 1;
};

/// Query heads that a slice takes of each key head.
std::int64_t query_group(const BackwardProblem& whole, const Slice& slice) {
  return whole.problem.query.sizes[1] / whole.problem.key.sizes[1] / slice.parts;
}

/// Returns `problem` with the sequences and heads of a slice; strides stay, but for gradients of
/// keys and values that are to be added.
BackwardProblem sliced(BackwardProblem b, const Slice& slice) {
  const std::int64_t group = query_group(b, slice);
  for (Layout* layout : {&b.problem.query, &b.problem.out, &b.grad_out, &b.grad_query}) {
    layout->sizes[0] = slice.sequences;
    layout->sizes[1] = slice.key_heads * group;
  }
  for (Layout* layout : {&b.problem.key, &b.problem.value, &b.grad_key, &b.grad_value}) {
    layout->sizes[0] = slice.sequences;
    layout->sizes[1] = slice.key_heads;
  }
  if (slice.parts > 1) b.grad_key = b.grad_value = packed_like(b.grad_key);
  return b;
}

std::int64_t largest_divisor_below(std::int64_t number) {
  for (std::int64_t part = number / 2; part > 1; --part) {
    if (number % part == 0) return part;
  }
  return 1;
}

/// Returns the next smaller slice: fewer sequences first, then fewer key heads of one sequence,
/// then fewer query heads of one key head.
std::optional<Slice> smaller(const BackwardProblem& whole, Slice slice) {
  if (slice.sequences > 1) {
    slice.sequences = largest_divisor_below(slice.sequences);
  } else if (slice.key_heads > 1) {
    slice.key_heads = largest_divisor_below(slice.key_heads);
  } else {
    const std::int64_t group = query_group(whole, slice);
    if (group == 1) return std::nullopt;
    slice.parts *= group / largest_divisor_below(group);
  }
  return slice;
}

/// Returns the largest slice that cuDNN takes with a workspace within the limit, or nothing.
std::optional<Slice> slice_of(const BackwardProblem& whole, std::int64_t most_workspace) {
  std::optional<Slice> slice = Slice{whole.problem.key.sizes[0], whole.problem.key.sizes[1]};
  while (slice) {
    const Plan& plan = backward_of(sliced(whole, *slice));
    if (plan.possible() && plan.workspace_bytes() <= most_workspace) return slice;
    slice = smaller(whole, *slice);
  }
  return slice;
}

BackwardProblem backward_problem(const Problem& problem, const Layout& grad_out,
                                 const Layout& grad_query, const Layout& grad_key,
                                 const Layout& grad_value) {
  return {problem, grad_out, grad_query, grad_key, grad_value};
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

void* data(const at::Tensor& tensor) { return tensor.data_ptr(); }

/// Runs backward over the slices of its tensors, which may lie anywhere.
class SlicedBackward {
 public:
  SlicedBackward(const at::Tensor& grad_out, const AttentionInputs& inputs,
                 const CudnnAttended& attended, const CudnnGradients& gradients,
                 const BackwardProblem& whole, const Slice& slice)
      : grad_out_(grad_out),
        inputs_(inputs),
        attended_(attended),
        gradients_(gradients),
        slice_(slice),
        group_(query_group(whole, slice)),
        plan_(backward_of(sliced(whole, slice))),
        workspace_(workspace(plan_, grad_out)) {}

  void run() const {
    for (std::int64_t sequence = 0; sequence < inputs_.key.size(0); sequence += slice_.sequences) {
      for (std::int64_t head = 0; head < inputs_.key.size(2); head += slice_.key_heads) {
        if (slice_.parts == 1) {
          run_slice(sequence, head, head * group_, keys(gradients_.key, sequence, head),
                    keys(gradients_.value, sequence, head));
        } else {
          add_parts(sequence, head);
        }
      }
    }
  }

 private:
  [[nodiscard]] at::Tensor keys(const at::Tensor& heads, std::int64_t sequence,
                                std::int64_t head) const {
    return heads.narrow(0, sequence, slice_.sequences).narrow(2, head, slice_.key_heads);
  }
  [[nodiscard]] void* queries(const at::Tensor& heads, std::int64_t sequence,
                              std::int64_t head) const {
    return data(
        heads.narrow(0, sequence, slice_.sequences).narrow(2, head, slice_.key_heads * group_));
  }

  void run_slice(std::int64_t sequence, std::int64_t key_head, std::int64_t query_head,
                 const at::Tensor& grad_key, const at::Tensor& grad_value) const {
    const at::Tensor log_sums = attended_.log_sums.narrow(0, sequence, slice_.sequences)
                                    .narrow(1, query_head, slice_.key_heads * group_);
    Pointers pointers{{kQuery, queries(inputs_.query, sequence, query_head)},
                      {kKey, data(keys(inputs_.key, sequence, key_head))},
                      {kValue, data(keys(inputs_.value, sequence, key_head))},
                      {kOut, queries(attended_.out, sequence, query_head)},
                      {kGradOut, queries(grad_out_, sequence, query_head)},
                      {kLogSums, data(log_sums)},
                      {kGradQuery, queries(gradients_.query, sequence, query_head)},
                      {kGradKey, data(grad_key)},
                      {kGradValue, data(grad_value)}};
    plan_.run(pointers, data(workspace_));
  }

  /// Adds the gradients of one key head over the parts of its query heads, in their order.
  void add_parts(std::int64_t sequence, std::int64_t head) const {
    at::Tensor grad_key = keys(gradients_.key, sequence, head);
    at::Tensor grad_value = keys(gradients_.value, sequence, head);
    const at::Tensor part_key = at::empty(grad_key.sizes(), grad_key.options());
    const at::Tensor part_value = at::empty(grad_value.sizes(), grad_value.options());
    for (std::int64_t part = 0; part < slice_.parts; ++part) {
      run_slice(sequence, head, (head * slice_.parts + part) * group_, part_key, part_value);
      if (part == 0) {
        grad_key.copy_(part_key);
        grad_value.copy_(part_value);
      } else {
        grad_key.add_(part_key);
        grad_value.add_(part_value);
      }
    }
  }

  const at::Tensor& grad_out_;
  const AttentionInputs& inputs_;
  const CudnnAttended& attended_;
  const CudnnGradients& gradients_;
  Slice slice_;
  std::int64_t group_;  ///< query heads of a key head in one slice
  const Plan& plan_;
  at::Tensor workspace_;
};

}  // namespace

bool cudnn_takes(const AttentionInputs& inputs, std::int64_t most_workspace) {
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
                              const CudnnAttended& attended, std::int64_t most_workspace,
                              const CudnnGradients& gradients) {
  BackwardProblem whole = backward_problem(
      problem_of(inputs, layout_of(attended.out), at::globalContext().deterministicAlgorithms()),
      layout_of(grad_out), layout_of(gradients.query), layout_of(gradients.key),
      layout_of(gradients.value));
  std::optional<Slice> slice = slice_of(whole, most_workspace);
  if (!slice && !whole.problem.deterministic) {
    whole.problem.deterministic = true;  // cudnn_takes() has found that it runs
    slice = slice_of(whole, most_workspace);
  }
  TORCH_CHECK(slice, "attention by cuDNN: no backward for tensors that forward took");
  SlicedBackward(grad_out, inputs, attended, gradients, whole, *slice).run();
}

}  // namespace athanor::cuda
