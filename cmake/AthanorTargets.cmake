# SPDX-License-Identifier: Apache-2.0
# How every athanor target is compiled.
add_library(athanor_options INTERFACE)
target_compile_features(athanor_options INTERFACE cxx_std_20)
target_include_directories(athanor_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/athanor>)

add_library(athanor_warnings INTERFACE)
target_compile_options(athanor_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion $<$<BOOL:${ATHANOR_WERROR}>:-Werror>)

add_library(athanor_instrumentation INTERFACE)
if(ATHANOR_SANITIZE)
  target_compile_options(athanor_instrumentation INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(athanor_instrumentation INTERFACE -fsanitize=address,undefined)
endif()
if(ATHANOR_COVERAGE)
  target_compile_options(athanor_instrumentation INTERFACE --coverage)
  target_link_options(athanor_instrumentation INTERFACE --coverage)
endif()

# athanor_add_library(NAME SOURCES .. PUBLIC .. PRIVATE ..): one static library per layer.
function(athanor_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  target_link_libraries(${name} PUBLIC athanor_options ${ARG_PUBLIC}
    PRIVATE $<BUILD_INTERFACE:athanor_warnings> $<BUILD_INTERFACE:athanor_instrumentation> ${ARG_PRIVATE})
endfunction()

# athanor_add_program(NAME SOURCES .. LIBRARIES ..): one of the programs that `athanor` starts.
function(athanor_add_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(${name} PRIVATE athanor_options athanor_warnings athanor_instrumentation ${ARG_LIBRARIES})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# athanor_add_test(NAME SOURCES .. LIBRARIES .. LABELS ..): a Catch2 program; each TEST_CASE is its own ctest test.
function(athanor_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE athanor_options athanor_warnings athanor_instrumentation
    ${ARG_LIBRARIES} Catch2::Catch2WithMain)
  target_compile_definitions(${name} PRIVATE
    ATHANOR_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ATHANOR_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
  catch_discover_tests(${name} TEST_PREFIX "${name}: " DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 4)
endfunction()
