// SPDX-License-Identifier: Apache-2.0
// Kernel names from CUPTI under PyTorch 2.11 with CUDA 13 (demangled; some shortened by hand).
#include "sim/model/enum_names.hpp"
#include "sim/model/kernel_classes.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("kernels are classified by their names") {
  const std::vector<std::pair<KernelClass, Names>> expected{
      {KernelClass::MatrixProduct,
       {"nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "nvjet_tst_128x256_64x4_1x2_h_bz_NNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
        "segment_k_off_kernel__5x_cublas",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64x16_stage4",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_"
        "align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, "
        "__nv_bfloat16, true, false, false>(cublasLt::cublasSplitKParams<float>, float const*)",
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, "
        "16, 4, 4, false, false, cublasGemvParamsEx<int>>(cublasGemvParamsEx<int>)",
        "triton_tem_fused_addmm_mm_0_mm_1"}},
      {KernelClass::Attention,
       {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, "
        "false, cutlass::bfloat16_t, Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, "
        "false, true, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)",
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<"
        "Flash_bwd_kernel_traits<128, 64, 128, 8>>(pytorch_flash::Flash_bwd_params)",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<128>>("
        "pytorch_flash::Flash_bwd_params)",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<"
        "cutlass::bfloat16_t, cutlass::arch::Sm80, true, 64, 128, 128, true, true>::Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128"}},
      {KernelClass::Normalisation,
       {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, "
        "float, false>(int, float, c10::BFloat16 const*)",
        "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<"
        "c10::BFloat16, float, false>(c10::BFloat16 const*, c10::BFloat16 const*, float const*)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<"
        "c10::BFloat16, float, 32u, 1u, 256u, true, false, false>(long, long)",
        "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float, float>(long)"}},
      {KernelClass::Elementwise,
       {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<"
        "c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, "
        "std::array<char*, 3ul>)",
        "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl("
        "at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}::operator()() "
        "const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, "
        "2ul> >(int)"}},
      {KernelClass::Reduction,
       {"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, "
        "at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, "
        "c10::BFloat16>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, "
        "c10::BFloat16, 4, 4> >(at::native::ReduceOp<c10::BFloat16>)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>("
        "float*, float const*, int, int, int, bool const*, int, bool)"}},
      {KernelClass::Loss,
       {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, c10::BFloat16, float, "
        "float, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*)",
        "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, "
        "float, long>(float*, float*)"}},
      {KernelClass::Indexing,
       {"void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(char*, char*)",
        "void at::native::(anonymous namespace)::compute_grad_weight<c10::BFloat16, int>(int*)",
        "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, "
        "long>(long const*, float const*)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::"
        "_cuda_scatter_gather_internal_kernel<true, float>>(int)"}},
      {KernelClass::Copy,
       {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
        "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
        "const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}>(at::Tensor)>(int)",
        "void at::native::vectorized_elementwise_kernel<8, "
        "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, "
        "std::array<char*, 2ul> >(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<unsigned int>()",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
        "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
        "Memcpy DtoD (Device -> Device)", "Memset (Device)"}},
      {KernelClass::Optimizer,
       {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
        "namespace)::FusedOptimizerTensorListMetadata<5>, at::native::FusedAdamMathFunctor>(int)"}},
      {KernelClass::Communication,
       {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"}},
      {KernelClass::Transfer,
       {"Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pageable)"}},
      {KernelClass::Other, {"my_kernel(float*)", ""}}};
  REQUIRE(expected.size() == static_cast<std::size_t>(kNumKernelClasses));
  for (const auto& [kind, names] : expected) {
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(name_of(kKernelClassNames, kernel_class(name)) == name_of(kKernelClassNames, kind));
    }
  }
}

TEST_CASE("the matrix units bound products and attention") {
  CHECK(is_product(KernelClass::MatrixProduct));
  CHECK(is_product(KernelClass::Attention));
  CHECK_FALSE(is_product(KernelClass::Normalisation));
  CHECK_FALSE(is_product(KernelClass::Other));
}

TEST_CASE("short names keep the parts that tell kernels apart") {
  CHECK(short_kernel_name("void (anonymous namespace)::softmax_warp_forward<float, 10>(float*, "
                          "void (*)(int))") == "softmax_warp_forward<float, 10>");
  CHECK(short_kernel_name("void at::native::reduce_kernel<128>(at::native::ReduceOp<float>)") ==
        "reduce_kernel<128>");
  CHECK(short_kernel_name("nvjet_sm90_tst_64x8") == "nvjet_sm90_tst_64x8");
  CHECK(short_kernel_name("Memcpy DtoD (Device -> Device)") == "Memcpy DtoD (Device -> Device)");
  CHECK(short_kernel_name("(int)") == "unnamed");
  CHECK(short_kernel_name("void )(") == ")(");
  CHECK(short_kernel_name("broken)") == "broken)");
  const std::string cut = short_kernel_name(std::string(500, 'k'));
  CHECK(cut.size() == 96);
  CHECK(cut.ends_with("k.."));
}

}  // namespace
}  // namespace athanor
