# SPDX-License-Identifier: Apache-2.0
# Installs the headers and the package, so that `find_package(athanor)` gives athanor::model, athanor::engine, ..
include(CMakePackageConfigHelpers)

# athanor_install_headers(ROOM NAME..): the public headers of one room. Headers that are not listed are the rooms' own.
function(athanor_install_headers room)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${room}/)
  list(TRANSFORM ARGN APPEND .hpp)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/athanor/${room})
endfunction()

athanor_install_headers(sim/base errors name_table quantities text_file)
athanor_install_headers(sim/cost scaling)
athanor_install_headers(sim/failures failure_forecast placement replay_failures snapshot_traffic waste)
athanor_install_headers(sim/formats files hf_config trace)
athanor_install_headers(sim/lowering lowering)
athanor_install_headers(sim/model architecture chunk_layout kernel_classes lane memory plan platform
  profile program provenance tier timeline)
athanor_install_headers(sim/policy policies request tuning_problem)
athanor_install_headers(sim/report critical_path)
if(ATHANOR_HAS_ENGINE)
  athanor_install_headers(sim/bounds bound_terms)
  athanor_install_headers(sim/engine engine simulation_options)
  athanor_install_headers(sim/policy plan_builder)
  athanor_install_headers(sim/search evaluated search search_space)
endif()
if(ATHANOR_HAS_EXECUTOR)
  athanor_install_headers(executor/backend backend collectives collectives_local device device_arena
    host_backend host_device host_memory lanes scratch_file)
  athanor_install_headers(executor/batches batch_source)
  athanor_install_headers(executor/cpu adam adam_step bfloat16 reductions)
  athanor_install_headers(executor/job step_report)
  athanor_install_headers(executor/memory memory_pools)
  athanor_install_headers(executor/train lr_schedule optimizer_ops rank_context
    step_scalars step_state trainer training_state)
  athanor_install_headers(executor/units language_model model user_model)
endif()
if(ATHANOR_HAS_CALIBRATE)
  athanor_install_headers(calibrate/bench samples)
  athanor_install_headers(calibrate/kernels kernel_trace)
  athanor_install_headers(calibrate/machine calibrate_machine)
  athanor_install_headers(calibrate/power power_fit)
  athanor_install_headers(calibrate/profile profile_model)
endif()

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
