# SPDX-License-Identifier: Apache-2.0
# How every athanor target is compiled.
add_library(athanor_options INTERFACE)
set_target_properties(athanor_options PROPERTIES EXPORT_NAME options)
target_compile_features(athanor_options INTERFACE cxx_std_20)
target_include_directories(athanor_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/athanor>)
install(TARGETS athanor_options EXPORT athanorTargets)

add_library(athanor_warnings INTERFACE)
target_compile_options(athanor_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion $<$<BOOL:${ATHANOR_WERROR}>:-Werror>)

add_library(athanor_instrumentation INTERFACE)
if(ATHANOR_SANITIZE)
  # LibTorch is built without RTTI checks of ours: vptr would report its types.
  target_compile_options(athanor_instrumentation INTERFACE
    -fsanitize=address,undefined,float-cast-overflow -fno-sanitize=vptr -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(athanor_instrumentation INTERFACE -fsanitize=address,undefined,float-cast-overflow)
endif()
if(ATHANOR_SANITIZE_THREADS)
  target_compile_options(athanor_instrumentation INTERFACE -fsanitize=thread)
  target_link_options(athanor_instrumentation INTERFACE -fsanitize=thread)
endif()
if(ATHANOR_COVERAGE)
  # Absolute paths: gcovr runs from anywhere. Lanes are threads, so counts may be lost; atomic counters would make the
  # tests of the search take twice as long, and a line that ran does not fall to zero.
  # tools/coverage.sh reports sim/ and executor/: counters in the templates of libraries would make every compilation a
  # sixth longer.
  string(REGEX REPLACE "([][+.*()^$?|{}\\])" "\\\\\\1" source_pattern "${PROJECT_SOURCE_DIR}")
  target_compile_options(athanor_instrumentation INTERFACE
    --coverage -fprofile-abs-path "-fprofile-filter-files=^${source_pattern}/(sim|executor)/")
  target_link_options(athanor_instrumentation INTERFACE --coverage)
endif()
if(ATHANOR_BUILD_FUZZERS)
  target_compile_options(athanor_instrumentation INTERFACE -fsanitize=fuzzer-no-link)
  add_custom_target(athanor_fuzzers)
endif()

# The own code of tests runs for a moment and is compiled for minutes: where what it calls is instrumented, it is neither
# instrumented nor optimized.
add_library(athanor_test_instrumentation INTERFACE)
if(ATHANOR_SANITIZE OR ATHANOR_SANITIZE_THREADS OR ATHANOR_COVERAGE)
  target_compile_options(athanor_test_instrumentation INTERFACE -O0)
  target_link_options(athanor_test_instrumentation INTERFACE
    $<TARGET_PROPERTY:athanor_instrumentation,INTERFACE_LINK_OPTIONS>)
endif()

# athanor_add_library(NAME SOURCES .. PUBLIC .. PRIVATE ..): one static library per layer.
# Those of the layers are installed, as athanor::NAME without the prefix: athanor_model is athanor::model. Interchange,
# benchmarks and settings are the simulator program's own.
function(athanor_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  string(REPLACE "athanor_" "" short_name ${name})
  add_library(${name} STATIC ${ARG_SOURCES})
  add_library(athanor::${short_name} ALIAS ${name})
  set_target_properties(${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF EXPORT_NAME ${short_name})
  target_link_libraries(${name} PUBLIC athanor_options ${ARG_PUBLIC}
    PRIVATE $<BUILD_INTERFACE:athanor_warnings> $<BUILD_INTERFACE:athanor_instrumentation> ${ARG_PRIVATE})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/(sim|executor|calibrate)(/|$)"
      AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/sim/(interchange|benchmarks|settings)$")
    install(TARGETS ${name} EXPORT athanorTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()

# A program without counters or sanitizers in its own code; whoever adds it links its instrumentation.
function(athanor_add_uninstrumented_executable name folder sources libraries)
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
  target_link_libraries(${name} PRIVATE athanor_options athanor_warnings ${libraries})
endfunction()

# A program that is built but not installed by itself: tests, benchmarks, fuzzers.
function(athanor_add_executable name folder sources libraries)
  athanor_add_uninstrumented_executable(${name} ${folder} "${sources}" "${libraries}")
  target_link_libraries(${name} PRIVATE athanor_instrumentation)
endfunction()

# athanor_add_program(NAME [TORCH] SOURCES .. LIBRARIES ..): one of the programs that `athanor` starts. Those with
# LibTorch are a part of their own of what is installed: ./dev package makes another wheel of them.
function(athanor_add_program name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LIBRARIES" ${ARGN})
  athanor_add_executable(${name} bin "${ARG_SOURCES}" "${ARG_LIBRARIES}")
  set(component simulator)
  if(ARG_TORCH)
    set(component trainer)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
  add_dependencies(athanor_programs ${name})
endfunction()

# athanor_add_test(NAME [TORCH|OPTIMIZED] SOURCES .. LIBRARIES .. LABELS ..): a Catch2 program; each TEST_CASE is its own
# ctest test. TORCH: its sources include LibTorch. OPTIMIZED: they compute for long themselves. Both are compiled as what
# they test is; all others unoptimized where that is instrumented, with the headers of tests/CMakeLists.txt precompiled.
# PROCESSORS: what one of its tests occupies (default 1). ATHANOR_PYTHON: the interpreter that has torch, or "".
# Slow tests start first (COST), and those on several processors before all: others run beside them then, and nothing that
# takes long is left for the end.
function(athanor_add_test name)
  cmake_parse_arguments(ARG "TORCH;OPTIMIZED" "PROCESSORS" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  athanor_add_uninstrumented_executable(${name} tests "${ARG_SOURCES}" "${ARG_LIBRARIES};Catch2::Catch2WithMain")
  if(ARG_TORCH OR ARG_OPTIMIZED)
    target_link_libraries(${name} PRIVATE athanor_instrumentation)
  else()
    target_link_libraries(${name} PRIVATE athanor_test_instrumentation)
    target_precompile_headers(${name} REUSE_FROM athanor_test_headers)
  endif()
  if(ARG_TORCH)
    athanor_precompile_torch(${name})
  endif()
  target_compile_definitions(${name} PRIVATE
    ATHANOR_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ATHANOR_BIN_DIR="${PROJECT_BINARY_DIR}/bin"
    ATHANOR_PYTHON="${ATHANOR_TORCH_INTERPRETER}")
  set(cost 0)
  if("slow" IN_LIST ARG_LABELS)
    set(cost ${ARG_PROCESSORS})
  endif()
  catch_discover_tests(${name} TEST_PREFIX "${name}: " DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${ARG_LABELS}" PROCESSORS ${ARG_PROCESSORS} COST ${cost} SKIP_RETURN_CODE 4)
endfunction()

# athanor_add_benchmark(NAME SOURCES .. LIBRARIES ..): a Google Benchmark program for `./dev bench`.
function(athanor_add_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(ATHANOR_BUILD_BENCHMARKS AND benchmark_FOUND)
    athanor_add_executable(${name} bench "${ARG_SOURCES}" "${ARG_LIBRARIES};benchmark::benchmark_main")
    target_compile_definitions(${name} PRIVATE ATHANOR_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  endif()
endfunction()

# athanor_add_fuzzer(NAME SOURCES .. LIBRARIES ..): a libFuzzer target for `./dev test --fuzz`.
# tests/fuzz/corpus/NAME, where it exists, seeds it.
function(athanor_add_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(ATHANOR_BUILD_FUZZERS)
    athanor_add_executable(${name} fuzz "${ARG_SOURCES}" "${ARG_LIBRARIES}")
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(athanor_fuzzers ${name})
  endif()
endfunction()
