// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/gzip_stream.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/input_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdint>
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
  explicit GzipBuffer(std::string path) : path_(std::move(path)) {
    InputFile input = open_input(path_);
    file_.reset(gzdopen(input.descriptor.get(), "rb"));
    if (file_ == nullptr) fail_read(path_, errno);
    (void)input.descriptor.release();  // gzclose closes it
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
    read_ += count;
    check_growth();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(buffer_.front());
  }

 private:
  /// Traces shrink to a tenth or a thirtieth. What shrinks far more is no trace.
  void check_growth() const {
    constexpr std::int64_t kSmall = 64 << 20, kMost = 200;
    if (read_ > kSmall && read_ > kMost * std::int64_t{gzoffset(file_.get())}) {
      throw InputError(path_, fmt::format("inflates to more than {} times its size", kMost),
                       "Is it the right file?");
    }
  }

  std::string path_;
  GzipFile file_;
  std::int64_t read_ = 0;
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
