// SPDX-License-Identifier: Apache-2.0
// LibTorch's errors as messages for users.
#pragma once

#include <exception>
#include <functional>
#include <string>

namespace athanor {

/// Returns the message of an error. LibTorch adds a stack of frames to its own, which is left out.
[[nodiscard]] std::string message_without_frames(const std::exception& error);

/// Returns what `body` returns. An error of LibTorch's leaves it as an Error without frames.
int without_frames(const std::function<int()>& body);

}  // namespace athanor
