// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/gzip_stream.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <streambuf>
#include <system_error>

namespace athanor::cli {
namespace {

struct CloseGzip {
  void operator()(gzFile file) const noexcept { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(std::string path)
      : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
    if (file_ == nullptr) {
      throw InputError(path_, "cannot be opened: " + std::generic_category().message(errno),
                       "Check the path and its permissions.");
    }
  }

 protected:
  int_type underflow() override {
    const int count = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
    int error = Z_OK;
    const char* reason = gzerror(file_.get(), &error);
    // A truncated file first gives the data that it has.
    if (count < 0 || (count == 0 && error != Z_OK)) {
      throw InputError(path_,
                       fmt::format("cannot be read: {}",
                                   error == Z_ERRNO ? std::generic_category().message(errno)
                                                    : std::string(reason)),
                       "Was the file cut short?");
    }
    if (count == 0) return traits_type::eof();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(buffer_.front());
  }

 private:
  std::string path_;
  GzipFile file_;
  std::array<char, 1 << 16> buffer_{};
};

class GzipStream : public std::istream {
 public:
  explicit GzipStream(const std::string& path) : std::istream(nullptr), buffer_(path) {
    rdbuf(&buffer_);
  }

 private:
  GzipBuffer buffer_;
};

}  // namespace

std::unique_ptr<std::istream> open_maybe_gzip(const std::string& path) {
  return std::make_unique<GzipStream>(path);
}

}  // namespace athanor::cli
