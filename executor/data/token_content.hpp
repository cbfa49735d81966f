// SPDX-License-Identifier: Apache-2.0
// Tells files that can be a model's tokens from those that are given by mistake.
#pragma once

#include "executor/data/token_formats.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace athanor {

/// Throws InputError, with the way out, where `bytes` are no tokens in any format: pickled or
/// compressed data, an array, a pointer to a file that was not downloaded.
void check_kind(std::span<const std::byte> bytes, TokenFormat format, const std::string& file);

/// Checks a file without a header of its own, which would be read as `type`. Throws InputError,
/// with the way out, where its content contradicts that: an archive, an array or another format;
/// text; ids that are twice as wide, or four times; a header without its magic; text for a model
/// whose vocabulary is not bytes. Nothing but --tokens-dtype bytes takes every file.
void check_content(std::span<const std::byte> bytes, TokenType type, TokenFormat format,
                   std::int64_t vocab_size, const std::string& file);

}  // namespace athanor
