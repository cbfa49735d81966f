// SPDX-License-Identifier: Apache-2.0
#include "executor/units/torch_errors.hpp"

#include "sim/base/errors.hpp"

#include <c10/util/Exception.h>

namespace athanor {

std::string message_without_frames(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error == nullptr ? error.what() : torch_error->what_without_backtrace();
}

int without_frames(const std::function<int()>& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    throw Error(message_without_frames(error));
  }
}

}  // namespace athanor
