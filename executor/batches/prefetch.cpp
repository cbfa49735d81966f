// SPDX-License-Identifier: Apache-2.0
#include "executor/batches/prefetch.hpp"

#include <c10/core/DeviceGuard.h>

#include <future>
#include <memory>
#include <optional>
#include <utility>

namespace athanor {
namespace {

/// Makes one batch ahead. Called by one thread.
class Prefetcher {
 public:
  explicit Prefetcher(BatchSource source) : source_(std::move(source)) {}

  Batch take(std::int64_t first, std::int64_t count) {
    const bool is_ready = next_.valid() && next_first_ == first && next_count_ == count;
    Batch batch = is_ready ? next_.get() : source_(first, count);
    guess(first, count);
    return batch;
  }

 private:
  /// A guess that did not come true is waited for where the next one takes its place.
  void guess(std::int64_t first, std::int64_t count) {
    const std::optional<std::int64_t> last = std::exchange(last_first_, first);
    if (!last || *last >= first) return;
    next_first_ = first + (first - *last);
    next_count_ = count;
    next_ = std::async(std::launch::async,
                       [this, from = next_first_, count] { return source_(from, count); });
  }

  BatchSource source_;
  std::optional<std::int64_t> last_first_;
  std::int64_t next_first_ = 0, next_count_ = 0;
  std::future<Batch> next_;  // last: its destructor waits for a thread that uses the others
};

}  // namespace

BatchSource prefetched(BatchSource source, torch::Device device) {
  if (!device.is_cpu()) {
    source = [plain = std::move(source), device](std::int64_t first, std::int64_t count) {
      Batch batch = plain(first, count);
      const c10::DeviceGuard guard(device);  // another GPU's memory must not be touched
      batch.inputs = batch.inputs.pin_memory();
      if (batch.targets.defined()) batch.targets = batch.targets.pin_memory();
      return batch;
    };
  }
  return [prefetcher = std::make_shared<Prefetcher>(std::move(source))](
             std::int64_t first, std::int64_t count) { return prefetcher->take(first, count); };
}

}  // namespace athanor
