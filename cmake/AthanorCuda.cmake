# SPDX-License-Identifier: Apache-2.0
# CUDA for the plugin: nvcc, and the headers and libraries that LibTorch itself runs with. Both come from the
# NVIDIA wheels beside torch where they are there (tools/requirements.txt), nvcc else from an installed toolkit.
# CMake's own CUDA language wants a complete toolkit, which the wheels are not: nvcc is called directly, and only
# for kernels.
#
# Sets athanor_cuda_found and athanor_cuda_why. Targets: athanor_cudart, athanor_cublaslt, athanor_nccl,
# athanor_cupti, athanor_torch_cuda, and athanor_cudnn where the headers of cudnn-frontend are there, too.
# Function: athanor_add_kernels.
set(ATHANOR_NVCC "" CACHE FILEPATH "CUDA compiler; empty: CUDACXX, the wheels beside torch, PATH, /usr/local/cuda")
set(ATHANOR_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Compute capabilities that kernels are compiled for")
set(ATHANOR_CUDNN_FRONTEND "" CACHE PATH "Folder of cudnn_frontend.h; empty: the wheel beside torch")
set(athanor_cuda_found FALSE)

function(athanor_find_nvcc result)
  cmake_path(GET torch_root PARENT_PATH site)
  set(candidates ${ATHANOR_NVCC} $ENV{CUDACXX} ${site}/nvidia/cu13/bin/nvcc)
  find_program(ATHANOR_NVCC_FOUND nvcc HINTS /usr/local/cuda/bin)
  mark_as_advanced(ATHANOR_NVCC_FOUND)
  list(APPEND candidates ${ATHANOR_NVCC_FOUND})
  foreach(candidate IN LISTS candidates)
    if(EXISTS ${candidate})
      set(${result} ${candidate} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# athanor_import_cuda(NAME FOLDER LIBRARY HEADER): athanor_NAME from FOLDER/lib and FOLDER/include.
macro(athanor_import_cuda name folder library header)
  if(EXISTS ${folder}/lib/${library} AND EXISTS ${folder}/include/${header})
    add_library(athanor_${name} SHARED IMPORTED)
    set_target_properties(athanor_${name} PROPERTIES IMPORTED_LOCATION ${folder}/lib/${library})
    target_include_directories(athanor_${name} SYSTEM INTERFACE ${folder}/include ${nvcc_root}/include)
  else()
    list(APPEND athanor_cuda_missing ${library})
  endif()
endmacro()

if(TARGET athanor_torch AND NOT ATHANOR_CUDA STREQUAL "OFF")
  athanor_find_nvcc(nvcc)
  cmake_path(GET torch_root PARENT_PATH site)
  set(wheels ${site}/nvidia)
  set(athanor_cuda_missing "")
  if(nvcc)
    execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE nvcc_text ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" matched "${nvcc_text}")
    set(nvcc_version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
    file(REAL_PATH ${nvcc} nvcc_root)
    cmake_path(GET nvcc_root PARENT_PATH nvcc_root)
    cmake_path(GET nvcc_root PARENT_PATH nvcc_root)
  endif()
  athanor_import_cuda(cudart ${wheels}/cu13 libcudart.so.13 cuda_runtime_api.h)
  athanor_import_cuda(cublaslt ${wheels}/cu13 libcublasLt.so.13 cublasLt.h)
  athanor_import_cuda(cupti ${wheels}/cu13 libcupti.so.13 cupti.h)
  athanor_import_cuda(nccl ${wheels}/nccl libnccl.so.2 nccl.h)
  # Without it attention is LibTorch's flash attention: half as fast on an H100.
  find_path(cudnn_frontend cudnn_frontend.h NO_CACHE NO_DEFAULT_PATH
    PATHS ${ATHANOR_CUDNN_FRONTEND} ${site}/include)
  set(cuda_missing_before_cudnn "${athanor_cuda_missing}")
  if(cudnn_frontend)
    athanor_import_cuda(cudnn ${wheels}/cudnn libcudnn.so.9 cudnn.h)
    athanor_import_cuda(nvrtc ${wheels}/cu13 libnvrtc.so.13 nvrtc.h)
  endif()
  set(athanor_cuda_missing "${cuda_missing_before_cudnn}")
  if(TARGET athanor_cudnn AND TARGET athanor_nvrtc)
    set(athanor_has_cudnn TRUE)
    target_include_directories(athanor_cudnn SYSTEM INTERFACE ${cudnn_frontend})
    target_link_libraries(athanor_cudnn INTERFACE athanor_nvrtc)  # of kernels that cudnn-frontend writes itself
    # Its JSON is for files of graphs, which nobody writes.
    target_compile_definitions(athanor_cudnn INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
    set(athanor_attention "attention by cuDNN")
  else()
    set(athanor_has_cudnn FALSE)
    set(athanor_attention "flash attention, as cuDNN was not found (PyPI: nvidia-cudnn-frontend)")
  endif()
  if(NOT EXISTS ${torch_root}/lib/libtorch_cuda.so)
    set(athanor_cuda_why "this LibTorch was built without CUDA")
  elseif(athanor_cuda_missing)
    list(JOIN athanor_cuda_missing ", " missing)
    set(athanor_cuda_why "beside torch there is no ${missing} (CUDA 13)")
  elseif(NOT nvcc)
    set(athanor_cuda_why "nvcc was not found (PyPI: nvidia-cuda-nvcc, or ATHANOR_NVCC)")
  elseif(nvcc_version VERSION_LESS 13 OR NOT nvcc_version VERSION_LESS 14)
    set(athanor_cuda_why "${nvcc} is ${nvcc_version}, and LibTorch runs with CUDA 13")
  else()
    set(athanor_cuda_found TRUE)
    set(athanor_cuda_why "nvcc ${nvcc_version}; ${athanor_attention}")
    add_library(athanor_torch_cuda INTERFACE IMPORTED)
    foreach(library c10_cuda torch_cuda)
      add_library(athanor_lib${library} SHARED IMPORTED)
      set_target_properties(athanor_lib${library} PROPERTIES
        IMPORTED_LOCATION ${torch_root}/lib/lib${library}.so)
    endforeach()
    # LibTorch's CUDA kernels register themselves: nothing refers to them by name.
    target_link_libraries(athanor_torch_cuda INTERFACE
      athanor_torch -Wl,--no-as-needed athanor_libtorch_cuda athanor_libc10_cuda athanor_cudart)
  endif()
endif()

# athanor_add_kernels(TARGET SOURCE..): compiles .cu files into TARGET. They hold kernels and their launchers
# alone, and see no LibTorch. No contraction: the bits are those of the host's code.
function(athanor_add_kernels target)
  set(code "")
  foreach(architecture IN LISTS ATHANOR_CUDA_ARCHITECTURES)
    list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(GET source FILENAME name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${nvcc} -c ${source} -o ${object} -std=c++20 -O3 --fmad=false ${code}
        -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler -fPIC,-Wall,-Wextra $<$<BOOL:${ATHANOR_WERROR}>:-Werror=all-warnings>
        -I${PROJECT_SOURCE_DIR} -isystem ${nvcc_root}/include -MD -MF ${object}.d
      COMMAND_EXPAND_LISTS
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Compiling kernels of ${name}")
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endforeach()
endfunction()
