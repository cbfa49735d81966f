// SPDX-License-Identifier: Apache-2.0
// Names of the model's enumerations, as files, options and messages write them.
#pragma once

#include "sim/base/name_table.hpp"
#include "sim/model/kernel_classes.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"
#include "sim/model/provenance.hpp"
#include "sim/model/tier.hpp"

namespace athanor {

inline constexpr NameTable<DataType, 2> kDataTypeNames{
    {{"float32", DataType::Float32}, {"bfloat16", DataType::BFloat16}}};
inline constexpr NameTable<AdamState, 3> kAdamStateNames{{{"float32", AdamState::Float32},
                                                          {"bfloat16", AdamState::BFloat16},
                                                          {"int8", AdamState::Int8}}};
inline constexpr NameTable<AdamState, 3> kShortAdamStateNames{
    {{"fp32", AdamState::Float32}, {"bf16", AdamState::BFloat16}, {"int8", AdamState::Int8}}};
/// Short names of element types, for options and messages. Files use kDataTypeNames.
inline constexpr NameTable<DataType, 2> kShortDataTypeNames{
    {{"fp32", DataType::Float32}, {"bf16", DataType::BFloat16}}};
inline constexpr NameTable<Source, 4> kSourceNames{{{"measured", Source::Measured},
                                                    {"data-sheet", Source::DataSheet},
                                                    {"scaled", Source::Scaled},
                                                    {"synthetic", Source::Synthetic}}};
inline constexpr NameTable<Sharding, 3> kShardingNames{
    {{"replicated", Sharding::Replicated},
     {"optimizer-sharded", Sharding::OptimizerSharded},
     {"sharded", Sharding::Sharded}}};
/// Value of a chunk's key `adam`, which is absent where the state's own home updates it.
inline constexpr NameTable<bool, 1> kAdamNames{{{"gpu", true}}};
inline constexpr NameTable<Home, 3> kHomeNames{
    {{"gpu", Home::Gpu}, {"host", Home::Host}, {"nvme", Home::Nvme}}};
inline constexpr NameTable<Tier, kTiers.size()> kTierNames{
    {{"gpu", Tier::Gpu}, {"pinned", Tier::Pinned}, {"host", Tier::Host}, {"nvme", Tier::Nvme}}};
inline constexpr NameTable<Activation, 3> kActivationNames{{{"keep", Activation::Keep},
                                                            {"recompute", Activation::Recompute},
                                                            {"offload", Activation::Offload}}};
inline constexpr NameTable<Clipping, 3> kClippingNames{
    {{"none", Clipping::None}, {"wait", Clipping::Wait}, {"speculate", Clipping::Speculate}}};
inline constexpr NameTable<Snapshot, 4> kSnapshotNames{{{"none", Snapshot::None},
                                                        {"redo", Snapshot::Redo},
                                                        {"versions", Snapshot::Versions},
                                                        {"copy", Snapshot::Copy}}};
inline constexpr NameTable<SnapshotSend, 5> kSnapshotSendNames{
    {{"direct", SnapshotSend::Direct},
     {"blocking", SnapshotSend::Blocking},
     {"naive", SnapshotSend::Naive},
     {"chunked", SnapshotSend::Chunked},
     {"pipelined", SnapshotSend::Pipelined}}};
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
inline constexpr NameTable<OpKind, 31> kOpKindNames{
    {{"param-read", OpKind::ParamRead},
     {"fetch", OpKind::Fetch},
     {"gather", OpKind::Gather},
     {"forward", OpKind::Forward},
     {"recompute", OpKind::Recompute},
     {"backward", OpKind::Backward},
     {"output-d2h", OpKind::OutputD2H},
     {"output-h2d", OpKind::OutputH2D},
     {"reduce", OpKind::Reduce},
     {"grad-add", OpKind::GradAdd},
     {"grad-h2d", OpKind::GradH2D},
     {"grad-d2h", OpKind::GradD2H},
     {"grad-write", OpKind::GradWrite},
     {"square-sum", OpKind::SquareSum},
     {"norm", OpKind::Norm},
     {"fence", OpKind::Fence},
     {"adam", OpKind::Adam},
     {"adam-rollback", OpKind::AdamRollback},
     {"mark", OpKind::Mark},
     {"param-h2d", OpKind::ParamH2D},
     {"state-read", OpKind::StateRead},
     {"state-write", OpKind::StateWrite},
     {"state-d2h", OpKind::StateD2H},
     {"loss", OpKind::Loss},
     {"dispatch", OpKind::Dispatch},
     {"combine", OpKind::Combine},
     {"peer-copy", OpKind::PeerCopy},
     {"peer-store", OpKind::PeerStore},
     {"peer-mark", OpKind::PeerMark},
     {"activation-gather", OpKind::ActivationGather},
     {"activation-reduce", OpKind::ActivationReduce}}};
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

}  // namespace athanor
