// SPDX-License-Identifier: Apache-2.0
// Text of any origin, such as a file's name, made fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace athanor {

/// Length of the UTF-8 character that `text` begins with; 0 where its first byte begins none.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Whether line ends are a part of the text or are escaped like other control characters.
enum class LineEnds { Escaped, Kept };

/// Replaces control characters and bytes that are no UTF-8 by \n, \t or \xNN: a terminal must not
/// obey what a file is called.
[[nodiscard]] std::string printable(std::string_view text, LineEnds line_ends = LineEnds::Escaped);

}  // namespace athanor
