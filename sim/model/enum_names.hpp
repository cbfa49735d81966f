// SPDX-License-Identifier: Apache-2.0
// How the values of enumerations are written in files, options and messages.
#pragma once

#include "sim/model/kernel_classes.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/provenance.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace athanor {

template <typename Value, std::size_t kSize>
using NameTable = std::array<std::pair<std::string_view, Value>, kSize>;

inline constexpr NameTable<DataType, 2> kDataTypeNames{
    {{"float32", DataType::Float32}, {"bfloat16", DataType::BFloat16}}};
inline constexpr NameTable<Source, 4> kSourceNames{{{"measured", Source::Measured},
                                                    {"data-sheet", Source::DataSheet},
                                                    {"scaled", Source::Scaled},
                                                    {"synthetic", Source::Synthetic}}};
inline constexpr NameTable<Sharding, 3> kShardingNames{
    {{"replicated", Sharding::Replicated},
     {"optimizer-sharded", Sharding::OptimizerSharded},
     {"sharded", Sharding::Sharded}}};
inline constexpr NameTable<bool, 1> kAdamNames{{{"gpu", true}}};
inline constexpr NameTable<Home, 3> kHomeNames{
    {{"gpu", Home::Gpu}, {"host", Home::Host}, {"nvme", Home::Nvme}}};
inline constexpr NameTable<Activation, 3> kActivationNames{{{"keep", Activation::Keep},
                                                            {"recompute", Activation::Recompute},
                                                            {"offload", Activation::Offload}}};
inline constexpr NameTable<Clipping, 3> kClippingNames{
    {{"none", Clipping::None}, {"wait", Clipping::Wait}, {"speculate", Clipping::Speculate}}};
inline constexpr NameTable<Copies, 2> kCopiesNames{
    {{"overlapped", Copies::Overlapped}, {"blocking", Copies::Blocking}}};
inline constexpr NameTable<OptimizerStart, 2> kOptimizerStartNames{
    {{"overlapped", OptimizerStart::Overlapped},
     {"after-backward", OptimizerStart::AfterBackward}}};
inline constexpr NameTable<OptimizerLanes, 2> kOptimizerLanesNames{
    {{"concurrent", OptimizerLanes::Concurrent}, {"serial", OptimizerLanes::Serial}}};
inline constexpr NameTable<Eviction, 2> kEvictionNames{
    {{"belady", Eviction::Belady}, {"fifo", Eviction::Fifo}}};
inline constexpr NameTable<SharedResource::Scope, 2> kScopeNames{
    {{"node", SharedResource::Scope::Node}, {"device", SharedResource::Scope::Device}}};
inline constexpr NameTable<Lane, kNumLanes> kLaneNames{{{"compute", Lane::Compute},
                                                        {"collective", Lane::Collective},
                                                        {"h2d", Lane::H2D},
                                                        {"d2h", Lane::D2H},
                                                        {"cpu-adam", Lane::CpuAdam},
                                                        {"nvme-read", Lane::NvmeRead},
                                                        {"nvme-write", Lane::NvmeWrite}}};
inline constexpr NameTable<KernelClass, kNumKernelClasses> kKernelClassNames{
    {{"matmul", KernelClass::MatrixProduct},
     {"attention", KernelClass::Attention},
     {"normalisation", KernelClass::Normalisation},
     {"elementwise", KernelClass::Elementwise},
     {"reduction", KernelClass::Reduction},
     {"indexing", KernelClass::Indexing},
     {"copy", KernelClass::Copy},
     {"optimizer", KernelClass::Optimizer},
     {"loss", KernelClass::Loss},
     {"communication", KernelClass::Communication},
     {"transfer", KernelClass::Transfer},
     {"other", KernelClass::Other}}};

template <typename Value, std::size_t kSize>
[[nodiscard]] constexpr std::string_view name_of(const NameTable<Value, kSize>& table,
                                                 Value value) noexcept {
  for (const auto& [name, candidate] : table) {
    if (candidate == value) {
      return name;
    }
  }
  return "unknown";
}

template <typename Value, std::size_t kSize>
[[nodiscard]] std::optional<Value> value_of(const NameTable<Value, kSize>& table,
                                            std::string_view name) noexcept {
  for (const auto& [candidate, value] : table) {
    if (candidate == name) {
      return value;
    }
  }
  return std::nullopt;
}

/// "keep, recompute": for messages.
template <typename Value, std::size_t kSize>
[[nodiscard]] std::string listed(const NameTable<Value, kSize>& table) {
  std::string list;
  for (const auto& [name, value] : table) {
    list.append(list.empty() ? "" : ", ").append(name);
  }
  return list;
}

}  // namespace athanor
