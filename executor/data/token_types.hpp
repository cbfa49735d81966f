// SPDX-License-Identifier: Apache-2.0
// The integer types that token files store.
#pragma once

#include <cstdint>

namespace athanor {

enum class TokenType { UInt8, Int8, Int16, UInt16, Int32, UInt32, Int64 };

/// Calls `body` with a zero of the C++ type that stores such a token.
template <class Body>
auto with_token_type(TokenType type, Body body) {
  switch (type) {
    case TokenType::UInt8:
      return body(std::uint8_t{});
    case TokenType::Int8:
      return body(std::int8_t{});
    case TokenType::Int16:
      return body(std::int16_t{});
    case TokenType::UInt16:
      return body(std::uint16_t{});
    case TokenType::Int32:
      return body(std::int32_t{});
    case TokenType::UInt32:
      return body(std::uint32_t{});
    case TokenType::Int64:
      break;
  }
  return body(std::int64_t{});
}

[[nodiscard]] inline std::int64_t token_bytes(TokenType type) noexcept {
  return with_token_type(type, [](auto token) { return std::int64_t{sizeof(token)}; });
}

}  // namespace athanor
