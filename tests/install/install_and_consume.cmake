# SPDX-License-Identifier: Apache-2.0
# BUILD: a finished build; SCRATCH: where to install and build; CONSUMER: the project that uses the installation.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGV}")
    message(FATAL_ERROR "${command}\nexited with ${status}:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH}/prefix ${SCRATCH}/consumer)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)

# Every header that is installed finds what it includes there, says that it is for users, and compiles by itself. Those
# that include LibTorch are compiled by the build.
set(include ${SCRATCH}/prefix/include/athanor)
file(GLOB_RECURSE headers RELATIVE ${include} ${include}/*.hpp)
set(plain ${headers})
foreach(header IN LISTS headers)
  file(STRINGS ${include}/${header} lines)
  foreach(line IN LISTS lines)
    if(line MATCHES "^#include \"(.+)\"$" AND NOT EXISTS ${include}/${CMAKE_MATCH_1})
      message(FATAL_ERROR "${header} is installed, and ${CMAKE_MATCH_1}, which it includes, is not")
    elseif(line MATCHES "[Ii]nternal")
      message(FATAL_ERROR "${header} is installed and says that it is internal: ${line}")
    endif()
  endforeach()
  if(header MATCHES "^(executor|calibrate)/")
    list(REMOVE_ITEM plain ${header})
  endif()
endforeach()
foreach(header IN LISTS plain)
  run(${COMPILER} -std=c++20 -fsyntax-only -DFMT_HEADER_ONLY -I${include} -x c++ ${include}/${header})
endforeach()

run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${SCRATCH}/consumer -G Ninja
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
  -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --build ${SCRATCH}/consumer)
run(${SCRATCH}/consumer/consumer)
