// SPDX-License-Identifier: Apache-2.0
// Device memory of the CPU backend, to the byte.
#include "executor/backend/device_arena.hpp"
#include "executor/units/arena_scope.hpp"
#include "executor/units/language_model.hpp"
#include "tests/units/tiny_models.hpp"
#include "tests/units/unit_chain.hpp"

#include <c10/core/CPUAllocator.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cstdint>
#include <thread>

namespace athanor {
namespace {

using test::UnitChain;

TEST_CASE("tensors of a scope are counted to the byte, others are not") {
  DeviceArena arena;
  const torch::Tensor outside = torch::ones({1000});
  torch::Tensor a;
  {
    const ArenaScope scope(arena);
    a = torch::empty({100});                               // 400 bytes
    const torch::Tensor b = a + outside.slice(0, 0, 100);  // 400
    CHECK(arena.live() == 800);
    const torch::Tensor view = b.view({10, 10});
    CHECK(arena.live() == 800);
    const torch::Tensor c = view.to(torch::kBFloat16);  // 200
    CHECK(reinterpret_cast<std::uintptr_t>(c.data_ptr()) % 64 == 0);
  }
  CHECK(arena.live() == 400);
  CHECK(arena.peak() == 1000);
  const torch::Tensor after = torch::empty({100});
  CHECK(arena.live() == 400);
  std::thread([&] { a.reset(); }).join();  // freed on a thread without a scope
  CHECK(arena.live() == 0);
}

TEST_CASE("scopes nest, and each thread has its own") {
  DeviceArena outer;
  DeviceArena inner;
  const ArenaScope scope(outer);
  {
    const ArenaScope nested(inner);
    const torch::Tensor a = torch::empty({1});
    CHECK(inner.live() == 4);
  }
  const torch::Tensor b = torch::empty({2});
  CHECK(outer.live() == 8);
  std::thread([] { (void)torch::empty({100}); }).join();
  CHECK(outer.peak() == 8);
}

TEST_CASE("blocks that are allocated by pointer alone are counted and freed too") {
  DeviceArena arena;
  c10::Allocator* allocator = nullptr;
  void* inside = nullptr;
  {
    const ArenaScope scope(arena);
    allocator = c10::GetCPUAllocator();
    inside = allocator->raw_allocate(100);
    CHECK(arena.live() == 100);
  }
  void* outside = allocator->raw_allocate(100);
  allocator->raw_deallocate(outside);
  CHECK(arena.live() == 100);
  allocator->raw_deallocate(inside);
  CHECK(arena.live() == 0);
}

TEST_CASE("an allocation beyond the limit fails, and the arena goes on") {
  DeviceArena arena(1000);
  const ArenaScope scope(arena);
  const torch::Tensor a = torch::empty({200});
  CHECK_THROWS_AS(torch::empty({51}), OutOfDeviceMemory);
  CHECK(torch::empty({50}).numel() == 50);
}

struct Memory {
  Bytes forward_peak, saved, backward_peak, left;
  bool operator==(const Memory&) const = default;
};

/// One block's forward and backward; the input is made outside.
Memory measure(UnitChain& chain, bool keep) {
  DeviceArena arena;
  Memory memory{};
  UnitActivations activations;
  const auto dtype = chain.slot(1).scalar_type();
  activations.input = torch::ones({2, 8, 32}, dtype).requires_grad_();
  const ArenaScope scope(arena);
  torch::Tensor output = chain.runner(1).forward(activations, {}, keep);
  memory.forward_peak = arena.peak();
  memory.saved = arena.live();
  if (!keep) return memory;
  output.reset();
  CHECK(arena.live() == memory.saved);  // the graph holds it
  arena.reset_peak();
  torch::Tensor grad_output = torch::ones({2, 8, 32}, dtype);
  const torch::Tensor grad_input = chain.runner(1).backward(activations, std::move(grad_output));
  memory.backward_peak = arena.peak();
  memory.left = arena.live();
  return memory;
}

TEST_CASE("a block takes the same memory every time, and less when nothing is saved") {
  const auto dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  const Bytes activation = 2 * 8 * 32 * size_of(dtype);
  const auto family = GENERATE(as<std::string>{}, "gpt2", "opt", "llama", "mistral", "qwen3");
  UnitChain chain(make_language_model(test::tiny_architecture(family), dtype, 8));
  chain.initialize(1);
  const Memory kept = measure(chain, /*keep=*/true);
  const Memory discarded = measure(chain, /*keep=*/false);
  CHECK(measure(chain, /*keep=*/true) == kept);
  CHECK(measure(chain, /*keep=*/false) == discarded);
  CHECK(discarded.saved == activation);  // the output alone
  CHECK(kept.left == activation);        // the input's gradient alone
  CHECK(kept.saved > 5 * activation);
  CHECK(discarded.forward_peak < kept.forward_peak);
  CHECK(kept.backward_peak >= kept.saved);
}

TEST_CASE("running out of memory inside backward surfaces as such") {
  UnitChain chain(make_language_model(test::tiny_architecture("gpt2"), DataType::Float32, 8));
  chain.initialize(1);
  const Memory kept = measure(chain, /*keep=*/true);
  REQUIRE(kept.backward_peak > kept.forward_peak);
  DeviceArena arena(kept.backward_peak - 1);
  UnitActivations activations;
  activations.input = torch::ones({2, 8, 32}).requires_grad_();
  {
    const ArenaScope scope(arena);
    torch::Tensor output = chain.runner(1).forward(activations, {}, /*keep=*/true);
    output.reset();
    torch::Tensor grad_output = torch::ones({2, 8, 32});
    CHECK_THROWS_AS(chain.runner(1).backward(activations, std::move(grad_output)),
                    OutOfDeviceMemory);
  }
  activations = {};
}

}  // namespace
}  // namespace athanor
