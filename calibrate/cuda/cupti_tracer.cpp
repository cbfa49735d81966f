// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/cupti_tracer.hpp"

#include "calibrate/cuda/cupti_library.hpp"
#include "calibrate/cuda/cupti_records.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace athanor {
namespace {

constexpr std::array kKinds{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                            CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                            CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMSET,
                            CUPTI_ACTIVITY_KIND_RUNTIME,
                            CUPTI_ACTIVITY_KIND_DRIVER,
                            CUPTI_ACTIVITY_KIND_OVERHEAD};
constexpr CUpti_ExternalCorrelationKind kOriginKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

/// Gathers records; CUPTI hands out full buffers on a thread of its own.
class Recorder {
 public:
  explicit Recorder(const CuptiLibrary& cupti) : cupti_(cupti) {}

  void take(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
            std::size_t size) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      CUpti_Activity* record = nullptr;
      while (cupti_.get_next_record(buffer, size, &record) == CUPTI_SUCCESS) {
        decode_record(
            *record, [this](auto domain, auto id) { return cupti_.call_name(domain, id); },
            records_);
      }
      std::size_t dropped = 0;
      if (cupti_.get_num_dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) {
        lost_ += dropped;
      }
    } catch (const std::bad_alloc&) {
      ++lost_;
    }
  }

  /// Returns the activities. Throws Error if records were lost: sums would be too small.
  [[nodiscard]] std::vector<TracedActivity> finish() {
    const std::lock_guard lock(mutex_);
    if (lost_ > 0) {
      throw Error(
          fmt::format("CUPTI lost {} records. Profile fewer micro-batch sizes at once, or "
                      "with --no-kernels.",
                      lost_));
    }
    return finished_activities(std::move(records_));
  }

 private:
  const CuptiLibrary& cupti_;
  std::mutex mutex_;
  CuptiRecords records_;
  std::size_t lost_ = 0;
};

/// Recorder that CUPTI's callbacks, which are plain functions, deliver to; null: none.
std::atomic<Recorder*> listening = nullptr;

using Word = std::uint64_t;  // CUPTI wants buffers that are aligned to 8 bytes

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
  *buffer = reinterpret_cast<std::uint8_t*>(new (std::nothrow) Word[kBufferBytes / sizeof(Word)]);
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;  // as many as there is room for
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t /*size*/, std::size_t valid) {
  const std::unique_ptr<Word[]> owner(reinterpret_cast<Word*>(buffer));
  if (Recorder* const recorder = listening; recorder != nullptr && valid > 0) {
    recorder->take(context, stream, buffer, valid);
  }
}

/// Callback of a subscriber to nothing.
void CUPTIAPI ignore_call(void* /*user*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId /*id*/,
                          const void* /*data*/) {}

/// Records from construction to destruction.
class Session {
 public:
  Session(const CuptiLibrary& cupti, Recorder& recorder) : cupti_(cupti) {
    // CUPTI refuses a second subscriber. So another tool is noticed here, and this one there.
    cupti_.check(cupti_.subscribe(&subscriber_, ignore_call, nullptr), "cuptiSubscribe");
    listening = &recorder;
    try {
      cupti_.check(cupti_.register_callbacks(give_buffer, take_buffer),
                   "cuptiActivityRegisterCallbacks");
      for (const CUpti_ActivityKind kind : kKinds) {
        cupti_.check(cupti_.enable(kind), "cuptiActivityEnable");
      }
    } catch (const Error&) {
      close();
      throw;
    }
  }
  ~Session() { close(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void flush() const {
    cupti_.check(cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  }

 private:
  void close() noexcept {
    for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(cupti_.disable(kind));
    // Records that CUPTI still holds must not arrive after the recorder is gone.
    static_cast<void>(cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    listening = nullptr;
    static_cast<void>(cupti_.unsubscribe(subscriber_));
  }

  const CuptiLibrary& cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
};

class CuptiTracer final : public KernelTracer {
 public:
  [[nodiscard]] std::string version() const override {
    std::uint32_t version = 0;
    cupti_.check(cupti_.get_version(&version), "cuptiGetVersion");
    return std::to_string(version);
  }

  void start() override {
    session_.reset();
    recorder_.emplace(cupti_);
    session_.emplace(cupti_, *recorder_);
  }

  void push(std::uint64_t origin) noexcept override {
    static_cast<void>(cupti_.push_origin(kOriginKind, origin));
  }
  void pop() noexcept override {
    std::uint64_t former = 0;
    static_cast<void>(cupti_.pop_origin(kOriginKind, &former));
  }

  [[nodiscard]] std::vector<TracedActivity> stop() override {
    session_.value().flush();
    session_.reset();
    return recorder_.value().finish();
  }

 private:
  CuptiLibrary cupti_;
  std::optional<Recorder> recorder_;
  std::optional<Session> session_;  ///< destroyed before the recorder
};

}  // namespace

std::unique_ptr<KernelTracer> make_cupti_tracer() { return std::make_unique<CuptiTracer>(); }

}  // namespace athanor
