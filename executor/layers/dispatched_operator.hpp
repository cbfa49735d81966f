// SPDX-License-Identifier: Apache-2.0
// Operators that LibTorch's dispatcher holds under athanor::NAME and a plugin implements.
#pragma once

#include <torch/library.h>
#include <torch/types.h>

#include <utility>

namespace athanor::fused {

/// Calls an operator below autograd; the caller provides its gradient.
template <typename Signature>
class Operator {
 public:
  explicit Operator(const char* name)
      : handle_(
            c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>()) {}
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) const {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return handle_.call(std::forward<Arguments>(arguments)...);
  }

 private:
  c10::TypedOperatorHandle<Signature> handle_;
};

}  // namespace athanor::fused
