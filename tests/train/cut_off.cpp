// SPDX-License-Identifier: Apache-2.0
#include "tests/train/cut_off.hpp"

#include "executor/cpu/split_master.hpp"
#include "tests/train/run_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <random>
#include <vector>

namespace athanor::test {

Architecture architecture_of_many_blocks() {
  LanguageModelConfig config = *tiny_gpt2().language_model;
  config.vocab_size = 1024;
  config.hidden_size = 64;
  config.head_dim = 32;
  return make_architecture("blocks", config);
}

void fill_state(const MemoryPools& pools, const Program& program, std::int64_t steps,
                Device& device, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::size_t unit = 0; unit < program.layouts.size(); ++unit) {
    for (const ChunkMemory& chunk : pools.chunks(static_cast<std::int32_t>(unit))) {
      std::vector<float> values(static_cast<std::size_t>(chunk.elements));
      for (const StatePart part : kStateParts) {
        for (float& value : values) value = std::abs(normal(random));
        pools.write_part(chunk, part, steps, 0, values, device);
      }
      for (std::int64_t i = 0; i < chunk.elements; ++i) {
        const float value = normal(random);
        if (program.gradient_dtype == DataType::Float32) {
          reinterpret_cast<float*>(chunk.gradient)[i] = value;
        } else {
          reinterpret_cast<BFloat16Bits*>(chunk.gradient)[i] = split_master(value).parameter;
        }
      }
    }
  }
}

GuardedCopy::GuardedCopy(const void* from, std::size_t bytes, std::size_t readable_pages)
    : bytes_((bytes + kPage - 1) / kPage * kPage),
      memory_(static_cast<std::byte*>(
          ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  std::memcpy(memory_, from, bytes);
  const std::size_t readable = std::min(readable_pages * kPage, bytes_);
  if (readable < bytes_) ::mprotect(memory_ + readable, bytes_ - readable, PROT_NONE);
}

GuardedCopy::~GuardedCopy() { ::munmap(memory_, bytes_); }

bool in_a_process_of_its_own(const std::function<void()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGSEGV, SIG_DFL);
    work();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace athanor::test
