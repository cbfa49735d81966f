// SPDX-License-Identifier: Apache-2.0
#include "executor/data/tokens.hpp"

#include "executor/data/token_content.hpp"
#include "executor/data/token_types.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace athanor {

namespace {

namespace fs = std::filesystem;

/// Returns the Megatron index that `path` names or has beside it.
std::optional<fs::path> megatron_index(const fs::path& path) {
  if (path.extension() == ".idx") return path;
  fs::path index = path;
  if (!is_there(path)) {
    index += ".idx";
  } else if (path.extension() == ".bin") {
    index.replace_extension(".idx");
  } else {
    return std::nullopt;
  }
  if (!is_there(index)) return std::nullopt;
  return index;
}

template <class Token>
void load_tokens(const std::byte* from, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token{};
    std::memcpy(&token, from + i * sizeof(Token), sizeof(Token));
    out[i] = token;
  }
}

}  // namespace

TokenDataset::Part TokenDataset::open(const std::string& path, TokenFormat format,
                                      std::int64_t vocab_size) {
  std::optional<fs::path> index =
      format != TokenFormat::UInt8 ? megatron_index(path) : std::nullopt;
  // Beside a file whose type is named, there may be an index of something else.
  const bool has_other_index = index && format != TokenFormat::Auto && is_there(path) &&
                               !is_megatron_index(MappedFile(index->string()).bytes());
  if (has_other_index) index.reset();
  if (!index) {
    MappedFile file(path);
    check_kind(file.bytes(), format, path);
    const TokenLayout layout = parse_token_file(file.bytes(), format, path);
    if (layout.begin == 0) check_content(file.bytes(), layout.type, format, vocab_size, path);
    return {std::move(file), layout};
  }
  const MappedFile index_file(index->string());
  MappedFile file(fs::path(*index).replace_extension(".bin").string());
  const TokenLayout layout =
      parse_megatron_index(index_file.bytes(), file.bytes().size(), index_file.path());
  check_stored_type(layout.type, format, index_file.path());
  return {std::move(file), layout};
}

TokenDataset::TokenDataset(const std::string& path, TokenFormat format, std::int64_t vocab_size)
    : TokenDataset(std::vector{path}, format, vocab_size) {}

TokenDataset::TokenDataset(const std::vector<std::string>& paths, TokenFormat format,
                           std::int64_t vocab_size)
    : vocab_size_(vocab_size) {
  for (const std::string& path : paths) {
    parts_.push_back(open(path, format, vocab_size));
    parts_.back().first = num_tokens_;
    num_tokens_ += parts_.back().layout.count;
  }
  if (parts_.empty()) throw InputError("--data", "names no file", "Name a file of tokens.");
  name_ = parts_.front().file.path();
  if (parts_.size() > 1) name_ += fmt::format(" and {} more", parts_.size() - 1);
}

void TokenDataset::read(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || first > num_tokens() - count) {
    throw Error(
        fmt::format("{}: {} tokens from {} on, and it has {}", path(), count, first, num_tokens()));
  }
  auto part = std::upper_bound(
      parts_.begin(), parts_.end(), first,
      [](std::int64_t position, const Part& other) { return position < other.first; });
  for (--part; !out.empty(); ++part) {
    const std::int64_t inside = first - part->first;
    const std::int64_t here =
        std::min(part->layout.count - inside, static_cast<std::int64_t>(out.size()));
    read_part(*part, inside, out.first(static_cast<std::size_t>(here)));
    out = out.subspan(static_cast<std::size_t>(here));
    first += here;
  }
}

void TokenDataset::read_part(const Part& part, std::int64_t first,
                             std::span<std::int64_t> out) const {
  with_token_type(part.layout.type, [&](auto token) {
    std::vector<std::byte> stored(out.size() * sizeof(token));
    part.file.read(part.layout.begin + static_cast<std::size_t>(first) * sizeof(token), stored);
    load_tokens<decltype(token)>(stored.data(), out);
  });
  const auto bad = std::find_if(out.begin(), out.end(),
                                [&](std::int64_t id) { return id < 0 || id >= vocab_size_; });
  if (bad != out.end()) {
    throw InputError(part.file.path(),
                     fmt::format("token {} at position {} is outside the vocabulary of {}", *bad,
                                 first + (bad - out.begin()), vocab_size_),
                     "Use tokens of the model's own tokenizer, or name the stored type with "
                     "--tokens-dtype.");
  }
}

void TokenDataset::check_all() const {
  constexpr std::int64_t kBlock = 1 << 16;
  std::vector<std::int64_t> block(static_cast<std::size_t>(std::min(kBlock, num_tokens())));
  for (std::int64_t first = 0; first < num_tokens(); first += kBlock) {
    const std::int64_t count = std::min(kBlock, num_tokens() - first);
    read(first, std::span(block).first(static_cast<std::size_t>(count)));
  }
}

std::int64_t TokenDataset::num_windows(std::int64_t sequence) const {
  assert(sequence > 0);
  const std::int64_t windows = (num_tokens() - 1) / sequence;
  if (windows < 1) {
    throw InputError(
        path(),
        fmt::format("{} tokens are too few for one sequence of {} and its targets", num_tokens(),
                    sequence),
        fmt::format("Give at least {} tokens, or shorten the sequence.", sequence + 1));
  }
  return windows;
}

std::int64_t TokenDataset::sample_start(std::int64_t index, std::int64_t sequence) const {
  return index % num_windows(sequence) * sequence;
}

void TokenDataset::read_sample(std::int64_t index, std::span<std::int64_t> inputs,
                               std::span<std::int64_t> targets) const {
  assert(inputs.size() == targets.size());
  const std::int64_t start = sample_start(index, static_cast<std::int64_t>(inputs.size()));
  read(start, inputs);
  read(start + 1, targets);
}

}  // namespace athanor
