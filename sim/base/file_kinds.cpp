// SPDX-License-Identifier: Apache-2.0
#include "sim/base/file_kinds.hpp"

#include "sim/base/errors.hpp"

#include <algorithm>
#include <array>

namespace athanor {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  FileKind kind;
};

constexpr std::string_view kUnpack = "Unpack it first.";
constexpr std::string_view kTokenize = "Make tokens of it: athanor tokenize.";
constexpr std::string_view kPickle =
    "Save weights with save_pretrained(FOLDER, safe_serialization=True), tokens with "
    "numpy.asarray(tokens, 'uint16').tofile(FILE).";
constexpr std::string_view kNumpy =
    "Write its tokens: numpy.load(FILE).astype('uint16').tofile('tokens.bin').";

constexpr std::array kSignatures{
    Signature{"\x1f\x8b"sv, {"a gzip file", kUnpack}},
    Signature{"\x28\xb5\x2f\xfd"sv, {"a zstd file", kUnpack}},
    Signature{"\xfd"
              "7zXZ\0"sv,
              {"an xz file", kUnpack}},
    Signature{"BZh"sv, {"a bzip2 file", kUnpack}},
    Signature{"PK\x03\x04"sv, {"a zip archive (torch.save, npz)", kPickle}},
    Signature{"\x80\x02"sv, {"a pickle", kPickle}},
    Signature{"\x80\x03"sv, {"a pickle", kPickle}},
    Signature{"\x80\x04\x95"sv, {"a pickle", kPickle}},
    Signature{"\x80\x05\x95"sv, {"a pickle", kPickle}},
    Signature{"PAR1"sv, {"a parquet file", kTokenize}},
    Signature{"ARROW1"sv, {"an Arrow file", kTokenize}},
    Signature{"\x93NUMPY"sv, {"a NumPy array", kNumpy}},
    Signature{"\x89HDF\r\n"sv, {"an HDF5 file", kUnpack}},
    Signature{"GGUF"sv, {"a GGUF file", "Use the model's safetensors."}},
};

constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";

}  // namespace

std::optional<FileKind> file_kind(std::string_view bytes) noexcept {
  const auto* const found =
      std::find_if(kSignatures.begin(), kSignatures.end(),
                   [&](const Signature& signature) { return bytes.starts_with(signature.bytes); });
  if (found != kSignatures.end()) return found->kind;
  constexpr std::size_t kLengthBytes = 8;  // safetensors: the header's length, then JSON
  if (bytes.size() > kLengthBytes && bytes.substr(4, 5) == "\0\0\0\0{"sv) {
    return FileKind{"a safetensors file", "Name a file of tokens."};
  }
  return std::nullopt;
}

void require_fetched(std::string_view bytes, const std::string& path) {
  if (bytes.starts_with(kPointer)) {
    throw InputError(path, "is a git-LFS pointer: the file itself was not fetched",
                     "Run `git lfs pull` in its folder.");
  }
  if (bytes.starts_with("<!DOCTYPE html") || bytes.starts_with("<html")) {
    throw InputError(path, "is a web page: the file itself was not fetched",
                     "Download the raw file.");
  }
}

}  // namespace athanor
