# SPDX-License-Identifier: Apache-2.0
# Installs the headers and the package, so that `find_package(athanor)` gives athanor::model, athanor::engine, ..
include(CMakePackageConfigHelpers)

# athanor_install_headers(ROOM NAME..): the public headers of one room. Headers that are not listed are the rooms' own.
function(athanor_install_headers room)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${room}/)
  list(TRANSFORM ARGN APPEND .hpp)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/athanor/${room})
endfunction()

athanor_install_headers(sim/base errors name_table progress quantities text_file)
athanor_install_headers(sim/cost scaling)
athanor_install_headers(sim/failures failure_forecast placement replay_failures snapshot_traffic waste)
athanor_install_headers(sim/formats files hf_config trace)
athanor_install_headers(sim/lowering lowering)
athanor_install_headers(sim/model architecture chunk_layout image_classifier kernel_classes lane language_models memory
  plan platform profile program provenance tier timeline)
athanor_install_headers(sim/patterns patterns tokens_travel)
athanor_install_headers(sim/policy policies request tuning_problem)
athanor_install_headers(sim/rates borrowed_rates combined_rates measure_rates rated_machine rates)
athanor_install_headers(sim/report critical_path)
if(ATHANOR_HAS_ENGINE)
  athanor_install_headers(sim/bounds bound_terms)
  athanor_install_headers(sim/engine engine measured_rates prediction_interval simulation_options)
  athanor_install_headers(sim/policy plan_builder)
  athanor_install_headers(sim/search evaluated search travel_search)
  athanor_install_headers(sim/search/space search_space)
endif()
if(ATHANOR_HAS_EXECUTOR)
  athanor_install_headers(executor/backend backend collectives collectives_local device device_arena
    host_backend host_device host_memory lanes scratch_file)
  athanor_install_headers(executor/batches batch_source)
  athanor_install_headers(executor/cpu adam adam_step bfloat16 block_moments device_function moment_map
    reductions split_master)
  athanor_install_headers(executor/experts routing)
  athanor_install_headers(executor/job step_report)
  athanor_install_headers(executor/layers packing)
  athanor_install_headers(executor/memory memory_pools shared_memory)
  athanor_install_headers(executor/recording work_recorder)
  athanor_install_headers(executor/train lr_schedule optimizer_ops rank_context
    step_scalars step_state trainer training_state)
  athanor_install_headers(executor/travel token_slots)
  athanor_install_headers(executor/units language_model model user_model)
  athanor_install_headers(executor/vision image_classifier)
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

# What users of the programs need. Names of platforms and profiles stand for these files (cli/common/shipped_files.hpp).
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT simulator)
install(FILES tools/completion.bash RENAME athanor
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT simulator)
install(FILES tools/completion.zsh RENAME _athanor
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT simulator)
install(FILES tools/completion.fish RENAME athanor.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT simulator)
if(TARGET athanor_manual)
  install(FILES ${PROJECT_BINARY_DIR}/athanor.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT simulator)
endif()
install(DIRECTORY platforms/ DESTINATION ${CMAKE_INSTALL_DATADIR}/athanor/platforms COMPONENT simulator
  FILES_MATCHING PATTERN "*.json" PATTERN datasheets EXCLUDE)
# Profiles with a day in their name are older measurements, kept for records.
install(DIRECTORY traces/profiles/ DESTINATION ${CMAKE_INSTALL_DATADIR}/athanor/profiles COMPONENT simulator
  FILES_MATCHING PATTERN "*.profile.json" REGEX "-20[0-9-]+(-b)?\\.profile\\.json$" EXCLUDE)
# Licences of what is compiled in: headers and static libraries, as this system's packages state them. Those of shared
# libraries that a wheel carries are added by tools/wheel.py.
foreach(package nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libyaml-cpp-dev libprotobuf-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright RENAME ${package}
      DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses COMPONENT simulator)
  endif()
endforeach()
