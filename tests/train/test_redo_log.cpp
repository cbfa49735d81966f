// SPDX-License-Identifier: Apache-2.0
// An update that is cut off at any page of its gradient, and recovered, has the bits of one that is
// not: also where the recovery itself is cut off.
#include "executor/backend/host_device.hpp"
#include "executor/snapshot/redo_log.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/run_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr std::int64_t kSteps = 7;  ///< done before the update that is cut off
constexpr const char* kRun = "0123456789abcdef";
constexpr std::size_t kPage = 4096;

Architecture architecture_of_many_blocks() {
  LanguageModelConfig config = *tiny_gpt2().language_model;
  config.vocab_size = 1024;
  config.hidden_size = 64;
  config.head_dim = 32;
  return make_architecture("blocks", config);
}

Plan redo_plan(const Architecture& architecture, DataType dtype) {
  Plan plan = uniform_plan(architecture, 1, 1, Sharding::Sharded, Home::Host, Home::Host,
                           Activation::Keep, 60000);
  plan.dtype = dtype;
  plan.snapshot = Snapshot::Redo;
  return plan;
}

/// Copy of a gradient of which the pages from one on cannot be read: who does ends.
class GuardedCopy {
 public:
  GuardedCopy(const std::byte* gradient, std::size_t bytes, std::size_t readable_pages)
      : bytes_((bytes + kPage - 1) / kPage * kPage),
        memory_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::memcpy(memory_, gradient, bytes);
    const std::size_t readable = std::min(readable_pages * kPage, bytes_);
    if (readable < bytes_) ::mprotect(memory_ + readable, bytes_ - readable, PROT_NONE);
  }
  ~GuardedCopy() { ::munmap(memory_, bytes_); }
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;
  [[nodiscard]] const std::byte* data() const { return memory_; }

 private:
  std::size_t bytes_;
  std::byte* memory_;
};

class Cut {
 public:
  explicit Cut(DataType dtype)
      : architecture_(architecture_of_many_blocks()),
        plan_(redo_plan(architecture_, dtype)),
        program_(lower(unmeasured_profile(architecture_, dtype, kSequence, 1), plan_)),
        shared_(SharedMemory::create(path(), shared_bytes(static_bytes(program_)))),
        pools_(program_, plan_, 0, device_, "", &shared_),
        whole_(shared_.map(0, shared_.bytes())) {
    fill();
    RedoLog log(pools_, program_, plan_);
    log.begin({.run = kRun, .layout = layout_hash(program_, plan_), .bytes = shared_.bytes()},
              "text", kSteps);
    RedoMarkPlace mark = log.mark(kSteps + 1);
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
    const RedoLogSize log = redo_log_size(program_, plan_);
    std::memcpy(whole_.get(), before_.data(),
                static_cast<std::size_t>(log.header + log.marks + log.versions));
    std::memcpy(whole_.get() + log.all(), before_.data() + log.all(),
                before_.size() - static_cast<std::size_t>(log.all()));
  }
  /// State and gradients as an update leaves them that nothing disturbs. The log may differ in what
  /// no longer counts: what is in its slots.
  [[nodiscard]] bool is_updated() const { return has_state_of(after_); }
  [[nodiscard]] bool is_torn() const { return !has_state_of(after_) && !has_state_of(before_); }

  /// Recovers in a process of its own that ends at a page of its gradients.
  void recover_and_die(std::size_t readable_pages) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      std::signal(SIGSEGV, SIG_DFL);
      recover(readable_pages);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
  }

  void recover(std::size_t readable_pages) {
    RedoLog log(pools_, program_, plan_);
    log.roll_forward(kSteps + 1, [&](std::int32_t unit, std::int32_t chunk, const RedoMark& mark) {
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
  void fill() {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const auto fill = [&](float* values, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) values[i] = std::abs(normal(random));
    };
    for (std::size_t unit = 0; unit < program_.layouts.size(); ++unit) {
      for (const ChunkMemory& chunk : pools_.chunks(static_cast<std::int32_t>(unit))) {
        std::vector<float> master(static_cast<std::size_t>(chunk.elements));
        fill(master.data(), chunk.elements);
        pools_.write_part(chunk, StatePart::Master, 0, 0, master, device_);
        fill(chunk.state.first_moment, chunk.elements);
        fill(chunk.state.second_moment, chunk.elements);
        for (std::int64_t i = 0; i < chunk.elements; ++i) {
          const float value = normal(random);
          if (program_.gradient_dtype == DataType::Float32) {
            reinterpret_cast<float*>(chunk.gradient)[i] = value;
          } else {
            reinterpret_cast<BFloat16Bits*>(chunk.gradient)[i] = split_master(value).parameter;
          }
        }
      }
    }
  }

  [[nodiscard]] std::string image() const {
    return {reinterpret_cast<const char*>(whole_.get()), static_cast<std::size_t>(shared_.bytes())};
  }
  [[nodiscard]] bool has_state_of(const std::string& image) const {
    const auto log = static_cast<std::size_t>(redo_log_size(program_, plan_).all());
    return std::memcmp(whole_.get() + log, image.data() + log, image.size() - log) == 0;
  }

  TemporaryFolder folder_;
  Architecture architecture_;
  Plan plan_;
  Program program_;
  HostDevice device_;
  SharedMemory shared_;
  MemoryPools pools_;
  MemoryBlock whole_;
  std::string before_, after_;
};

}  // namespace

TEST_CASE("an update that is cut off anywhere is finished to the same bits") {
  Cut cut(GENERATE(DataType::Float32, DataType::BFloat16));
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
  Cut cut(DataType::BFloat16);
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
  const Cut cut(DataType::BFloat16);
  CHECK(find_run_memory(cut.folder(), kRun).problem.find("living process") != std::string::npos);
  const std::string copy = cut.folder() + "/copy";
  const auto write_copy = [&](std::size_t damaged) {
    std::string bytes = read_start(cut.path(), 1 << 20);
    if (damaged < bytes.size()) bytes[damaged] = static_cast<char>(bytes[damaged] ^ 0x10);
    std::ofstream(copy, std::ios::binary) << bytes;
    ::chmod(copy.c_str(), S_IRUSR | S_IWUSR);
  };
  write_copy(1U << 30);
  const RedoSummary summary = read_redo_summary(copy);
  CHECK(summary.run == kRun);
  CHECK(summary.text == "text");
  CHECK(summary.loaded == kSteps);
  CHECK(summary.steps == kSteps + 1);
  for (const std::size_t damaged :
       {std::size_t{0}, std::size_t{12}, std::size_t{64}, offsetof(RedoHeader, checksum),
        static_cast<std::size_t>(kRedoTextOffset)}) {
    INFO("byte " << damaged << " is damaged");
    write_copy(damaged);
    CHECK_THROWS_AS(read_redo_summary(copy), Error);
  }
  ::chmod(copy.c_str(), S_IRUSR | S_IWUSR | S_IROTH);
  CHECK_THROWS_AS(read_redo_summary(copy), Error);
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
