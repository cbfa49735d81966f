# SPDX-License-Identifier: Apache-2.0
# LibTorch from a PyTorch wheel, as target athanor_torch. The wheel's own CMake config insists on a full CUDA
# toolkit when torch was built for CUDA; the CPU backend needs only libtorch_cpu and libc10.
if(NOT ATHANOR_EXECUTOR STREQUAL "OFF" AND NOT ATHANOR_LIBTORCH STREQUAL "OFF")
  set(candidates ${ATHANOR_TORCH_PYTHON})
  if(NOT candidates)
    set(candidates ${PROJECT_SOURCE_DIR}/.venv/bin/python $ENV{VIRTUAL_ENV}/bin/python python3)
  endif()
  foreach(python IN LISTS candidates)
    # find_spec does not import torch, which would take seconds.
    execute_process(
      COMMAND ${python} -c
        "import importlib.util as u, importlib.metadata as m; print(u.find_spec('torch').submodule_search_locations[0], m.version('torch'), sep=';')"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0)
      list(GET found 0 torch_root)
      list(GET found 1 ATHANOR_TORCH_VERSION)
      set(ATHANOR_TORCH_INTERPRETER ${python})
      break()
    endif()
  endforeach()
endif()

if(torch_root AND EXISTS ${torch_root}/lib/libtorch_cpu.so)
  foreach(library c10 torch_cpu)
    add_library(athanor_torch_${library} SHARED IMPORTED)
    set_target_properties(athanor_torch_${library} PROPERTIES
      IMPORTED_LOCATION ${torch_root}/lib/lib${library}.so)
  endforeach()
  add_library(athanor_torch INTERFACE IMPORTED)
  target_include_directories(athanor_torch SYSTEM INTERFACE
    ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
  # The wheel brings the headers of a newer fmt and no library of it; its symbols are versioned.
  target_compile_definitions(athanor_torch INTERFACE FMT_HEADER_ONLY=1)
  # ccache keeps objects that use a precompiled header only with this flag.
  target_compile_options(athanor_torch INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_link_libraries(athanor_torch INTERFACE athanor_torch_torch_cpu athanor_torch_c10 Threads::Threads)

  # LibTorch's headers take 20 s to read, and 4 s precompiled. One file of half a gigabyte serves every target, so
  # all of them are compiled with the options of this one.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/torch_headers.cpp CONTENT "")
  add_library(athanor_torch_headers OBJECT ${PROJECT_BINARY_DIR}/torch_headers.cpp)
  set_target_properties(athanor_torch_headers PROPERTIES CXX_EXTENSIONS OFF UNITY_BUILD OFF)
  target_compile_options(athanor_torch_headers PRIVATE -fPIC)
  target_link_libraries(athanor_torch_headers PRIVATE
    athanor_options athanor_warnings athanor_instrumentation fmt::fmt athanor_torch)
  target_precompile_headers(athanor_torch_headers PRIVATE
    <torch/types.h> <torch/utils.h> <torch/autograd.h>)
endif()

# athanor_precompile_torch(NAME..): the sources of these targets include LibTorch.
function(athanor_precompile_torch)
  foreach(name IN LISTS ARGV)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
    target_precompile_headers(${name} REUSE_FROM athanor_torch_headers)
  endforeach()
endfunction()
