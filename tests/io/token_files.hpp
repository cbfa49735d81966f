// SPDX-License-Identifier: Apache-2.0
// Hand-made token files, as llm.c and Megatron write them.
#pragma once

#include "tests/io/temporary_files.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::test {

template <class Token>
std::string tokens_of(const std::vector<Token>& tokens) {
  std::string bytes;
  for (const Token token : tokens) bytes += raw(token);
  return bytes;
}

template <class Token>
std::string llmc_file(std::int32_t magic, std::int32_t version, const std::vector<Token>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(tokens.size());
  return tokens_of(header) + tokens_of(tokens);
}

/// One document per sequence.
inline std::string megatron_index(std::uint8_t type, const std::vector<std::int32_t>& lengths,
                                  const std::vector<std::int64_t>& positions,
                                  std::uint64_t version = 1) {
  std::vector<std::int64_t> documents{0};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    documents.push_back(static_cast<std::int64_t>(i) + 1);
  }
  return std::string("MMIDIDX\0\0", 9) + raw(version) + raw(type) +
         raw(static_cast<std::uint64_t>(lengths.size())) +
         raw(static_cast<std::uint64_t>(documents.size())) + tokens_of(lengths) +
         tokens_of(positions) + tokens_of(documents);
}

}  // namespace athanor::test
