# SPDX-License-Identifier: Apache-2.0
# Installs the headers and the package, so that `find_package(athanor)` gives athanor::model, athanor::engine, ..
include(CMakePackageConfigHelpers)

set(public_folders sim/model)
if(ATHANOR_HAS_ENGINE)
  list(APPEND public_folders sim/engine sim/tune)
endif()
if(ATHANOR_HAS_EXECUTOR)
  list(APPEND public_folders executor)
endif()
if(ATHANOR_HAS_CALIBRATE)
  list(APPEND public_folders calibrate)
endif()
foreach(folder IN LISTS public_folders)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/athanor/${folder}
    FILES_MATCHING PATTERN "*.hpp")
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/athanor)
configure_package_config_file(cmake/athanorConfig.cmake.in ${PROJECT_BINARY_DIR}/athanorConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/athanorConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT athanorTargets NAMESPACE athanor:: DESTINATION ${package_folder})
install(FILES
  ${PROJECT_BINARY_DIR}/athanorConfig.cmake ${PROJECT_BINARY_DIR}/athanorConfigVersion.cmake
  cmake/AthanorTorch.cmake
  DESTINATION ${package_folder})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES tools/athanor.bash-completion RENAME athanor
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
