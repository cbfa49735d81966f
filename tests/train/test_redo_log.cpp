// SPDX-License-Identifier: Apache-2.0
// An update that is cut off at any page of its gradient, and recovered, has the bits of one that is
// not: also where the recovery itself is cut off.
#include "executor/backend/host_device.hpp"
#include "executor/snapshot/redo_log.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/cut_off.hpp"
#include "tests/train/run_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr std::int64_t kSteps = 7;  ///< done before the update that is cut off
constexpr const char* kRun = "0123456789abcdef";

Plan redo_plan(const Architecture& architecture, DataType dtype) {
  Plan plan = uniform_plan(architecture, 1, 1, Sharding::Sharded, Home::Host, Home::Host,
                           Activation::Keep, 60000);
  plan.dtype = dtype;
  plan.snapshot = Snapshot::Redo;
  return plan;
}

class CutOff {
 public:
  explicit CutOff(DataType dtype)
      : architecture_(architecture_of_many_blocks()),
        plan_(redo_plan(architecture_, dtype)),
        program_(lower(unmeasured_profile(architecture_, dtype, kSequence, 1), plan_)),
        shared_(SharedMemory::create(path(), shared_bytes(static_bytes(program_)))),
        pools_(program_, plan_, 0, device_, "", &shared_),
        log_(pools_, program_, plan_),
        whole_(shared_.map(0, shared_.bytes())) {
    fill_state(pools_, program_, 0, device_);
    RedoLog(log_, pools_, program_, plan_).begin(kSteps);
    log_.begin({.run = kRun, .layout = layout_hash(program_, plan_), .bytes = shared_.bytes()},
               "text", kSteps);
    SnapshotMarkPlace mark = log_.mark(kSteps + 1);
    *mark.coefficients = {.weight_decay = 0.1F, .step = kSteps + 1};
    mark.clipping->scale = 0.5F;
    std::ranges::fill(mark.losses, 2.0);
    *mark.steps = kSteps + 1;
    before_ = image();
    recover(1U << 20);
    after_ = image();
    restore();
  }

  [[nodiscard]] std::string folder() const { return folder_.file("shm"); }
  [[nodiscard]] std::string path() const {
    ::mkdir(folder().c_str(), 0700);
    return memory_path(folder(), kRun, 0);
  }
  /// Pages of the longest gradient, and one more: nothing is cut off.
  [[nodiscard]] std::size_t num_pages() const {
    std::int64_t longest = 0;
    for (const ChunkMemory& chunk : pools_.chunks(0)) longest = std::max(longest, chunk.elements);
    return static_cast<std::size_t>(longest * size_of(program_.gradient_dtype)) / kPage + 2;
  }

  /// Brings everything back but the slots of the log, which a recovery has freed.
  void restore() {
    const SnapshotLogSize log = snapshot_log_size(program_, plan_);
    std::memcpy(whole_.get(), before_.data(),
                static_cast<std::size_t>(log.header + log.marks + log.block_steps));
    std::memcpy(whole_.get() + log.all(), before_.data() + log.all(),
                before_.size() - static_cast<std::size_t>(log.all()));
  }
  /// State and gradients as an update leaves them that nothing disturbs. The log may differ in what
  /// no longer counts: what is in its slots.
  [[nodiscard]] bool is_updated() const { return has_state_of(after_); }
  [[nodiscard]] bool is_torn() const { return !has_state_of(after_) && !has_state_of(before_); }

  /// Recovers in a process of its own that ends at a page of its gradients.
  void recover_and_die(std::size_t readable_pages) {
    in_a_process_of_its_own([&] { recover(readable_pages); });
  }

  void recover(std::size_t readable_pages) {
    RedoLog log(log_, pools_, program_, plan_);
    log.roll_forward(
        kSteps + 1, [&](std::int32_t unit, std::int32_t chunk, const SnapshotMark& mark) {
          const ChunkMemory& memory = pools_.chunk(unit, chunk);
          const GuardedCopy gradient(
              memory.gradient,
              static_cast<std::size_t>(memory.elements * size_of(program_.gradient_dtype)),
              readable_pages);
          const std::vector<AdamSegment> segments{{0, 1000, false}, {1000, memory.elements, true}};
          log.update(unit, chunk,
                     {.from = memory.state,
                      .to = memory.state,
                      .gradient = gradient.data(),
                      .gradient_dtype = program_.gradient_dtype,
                      .segments = segments,
                      .coefficients = mark.coefficients,
                      .gradient_scale = &mark.clipping.scale});
        });
  }

 private:
  [[nodiscard]] std::string image() const {
    return {reinterpret_cast<const char*>(whole_.get()), static_cast<std::size_t>(shared_.bytes())};
  }
  [[nodiscard]] bool has_state_of(const std::string& image) const {
    const auto log = static_cast<std::size_t>(snapshot_log_size(program_, plan_).all());
    return std::memcmp(whole_.get() + log, image.data() + log, image.size() - log) == 0;
  }

  TemporaryFolder folder_;
  Architecture architecture_;
  Plan plan_;
  Program program_;
  HostDevice device_;
  SharedMemory shared_;
  MemoryPools pools_;
  SnapshotLog log_;
  MemoryBlock whole_;
  std::string before_, after_;
};

}  // namespace

TEST_CASE("an update that is cut off anywhere is finished to the same bits") {
  CutOff cut(GENERATE(DataType::Float32, DataType::BFloat16));
  int torn = 0;
  for (std::size_t pages = 0; pages < cut.num_pages(); ++pages) {
    INFO(pages << " pages of gradients can be read");
    cut.restore();
    cut.recover_and_die(pages);
    torn += cut.is_torn() ? 1 : 0;
    cut.recover(1U << 20);
    REQUIRE(cut.is_updated());
  }
  CHECK(torn > static_cast<int>(cut.num_pages()) / 2);
}

TEST_CASE("a recovery that is cut off is recovered") {
  CutOff cut(DataType::BFloat16);
  for (std::size_t first = 0; first < cut.num_pages(); first += 5) {
    for (std::size_t second = 0; second < cut.num_pages(); second += 3) {
      INFO("cut off after " << first << " pages, then after " << second);
      cut.restore();
      cut.recover_and_die(first);
      cut.recover_and_die(second);
      cut.recover(1U << 20);
      REQUIRE(cut.is_updated());
    }
  }
}

TEST_CASE("what a log says is read, and damage is noticed") {
  const CutOff cut(DataType::BFloat16);
  CHECK(find_run_memory(cut.folder(), kRun).problem.find("living process") != std::string::npos);
  const std::string copy = cut.folder() + "/copy";
  const auto write_copy = [&](std::size_t damaged) {
    std::string bytes = read_start(cut.path(), 1 << 20);
    if (damaged < bytes.size()) bytes[damaged] = static_cast<char>(bytes[damaged] ^ 0x10);
    std::ofstream(copy, std::ios::binary) << bytes;
    ::chmod(copy.c_str(), S_IRUSR | S_IWUSR);
  };
  write_copy(1U << 30);
  const SnapshotSummary summary = read_snapshot_summary(copy);
  CHECK(summary.run == kRun);
  CHECK(summary.text == "text");
  CHECK(summary.loaded == kSteps);
  CHECK(summary.steps == kSteps + 1);
  for (const std::size_t damaged :
       {std::size_t{0}, std::size_t{12}, std::size_t{64}, offsetof(SnapshotHeader, checksum),
        static_cast<std::size_t>(kSnapshotTextOffset)}) {
    INFO("byte " << damaged << " is damaged");
    write_copy(damaged);
    CHECK_THROWS_AS(read_snapshot_summary(copy), Error);
  }
  ::chmod(copy.c_str(), S_IRUSR | S_IWUSR | S_IROTH);
  CHECK_THROWS_AS(read_snapshot_summary(copy), Error);
}

TEST_CASE("shared memory is this user's alone, whole, and one process's") {
  const TemporaryFolder folder;
  const std::string path = folder.file("memory");
  constexpr Bytes kBytes = 100'000;
  static_cast<void>(SharedMemory::create(path, kBytes));
  CHECK_FALSE(std::filesystem::exists(path));  // nothing in it was worth keeping
  {
    SharedMemory memory = SharedMemory::create(path, kBytes);
    memory.keep(true);
    struct stat status{};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == (S_IRUSR | S_IWUSR));
    CHECK(status.st_blocks * 512 >= kBytes);
    CHECK(is_held(path));
    CHECK_THROWS_AS(SharedMemory::create(path, kBytes), Error);
    CHECK_THROWS_AS(SharedMemory::open(path), Error);
    memory.map(0, kBytes).get()[kBytes - 1] = std::byte{42};
  }
  CHECK_FALSE(is_held(path));
  CHECK(SharedMemory::open(path).map(0, kBytes).get()[kBytes - 1] == std::byte{42});
  const std::string link = folder.file("link");
  REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
  CHECK_THROWS_AS(SharedMemory::open(link), Error);
  CHECK_THROWS_AS(SharedMemory::create(link, kBytes), Error);
}
