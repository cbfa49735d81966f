// SPDX-License-Identifier: Apache-2.0
// Files that optimizer state passes through.
#include "executor/backend/host_memory.hpp"
#include "executor/backend/scratch_file.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/program.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <filesystem>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;

/// `blocks` blocks of memory that hold `value`.
class Blocks {
 public:
  Blocks(int blocks, int value) : size_(static_cast<std::size_t>(blocks * kFileBlock)) {
    std::memset(memory_.get(), value, size_);
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), size_}; }
  [[nodiscard]] int value_at(std::size_t index) const {
    return std::to_integer<int>(memory_.get()[index]);
  }

 private:
  std::size_t size_;
  MemoryBlock memory_ = allocate_host_memory(static_cast<Bytes>(size_));
};

std::string temporary_folder() { return std::filesystem::temp_directory_path(); }

TEST_CASE("a file reads back what was written and is zero elsewhere") {
  for (const std::string& folder : {temporary_folder(), std::string("/dev/shm")}) {
    if (!std::filesystem::exists(folder)) continue;
    const ScratchFile file(folder, 4 * kFileBlock);
    file.write(kFileBlock, Blocks(2, 7).bytes());
    const Blocks all(4, 1);
    file.read(0, all.bytes());
    CHECK(all.value_at(0) == 0);
    CHECK(all.value_at(static_cast<std::size_t>(kFileBlock)) == 7);
    CHECK(all.value_at(static_cast<std::size_t>(3 * kFileBlock - 1)) == 7);
    CHECK(all.value_at(static_cast<std::size_t>(3 * kFileBlock)) == 0);
  }
}

TEST_CASE("a file has no name") {
  const std::string folder = temporary_folder() + "/athanor-scratch-test";
  std::filesystem::create_directory(folder);
  const ScratchFile file(folder, kFileBlock);
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST_CASE("a failure names the folder and the reason") {
  CHECK_THROWS_WITH(ScratchFile("/nowhere", kFileBlock),
                    ContainsSubstring("/nowhere: No such file"));
  CHECK_THROWS_WITH(ScratchFile(temporary_folder(), Bytes{1} << 55),
                    ContainsSubstring("cannot reserve") && ContainsSubstring(temporary_folder()));
  const ScratchFile file(temporary_folder(), kFileBlock);
  CHECK_THROWS_WITH(file.read(kFileBlock, Blocks(1, 0).bytes()), ContainsSubstring("cannot read"));
  CHECK(free_bytes(temporary_folder(), "--nvme") > 0);
  CHECK_THROWS_AS(free_bytes("/dev/null", "--nvme"), InputError);
  CHECK_THROWS_WITH(free_bytes("/nowhere", "--nvme"), ContainsSubstring("--nvme"));
}

}  // namespace
}  // namespace athanor
