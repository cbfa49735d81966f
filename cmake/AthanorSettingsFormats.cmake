# SPDX-License-Identifier: Apache-2.0
# YAML and TOML, in which other systems keep their settings. Targets: athanor_yaml, athanor_toml.
# yaml-cpp is linked statically, so that an installed simulator needs no package of it; toml++ is headers alone.
find_path(ATHANOR_YAML_INCLUDE yaml-cpp/yaml.h)
find_library(ATHANOR_YAML_LIBRARY NAMES libyaml-cpp.a yaml-cpp)
find_path(ATHANOR_TOML_INCLUDE toml++/toml.h)
mark_as_advanced(ATHANOR_YAML_INCLUDE ATHANOR_YAML_LIBRARY ATHANOR_TOML_INCLUDE)
if(NOT ATHANOR_YAML_INCLUDE OR NOT ATHANOR_YAML_LIBRARY)
  message(FATAL_ERROR "yaml-cpp was not found (Debian: libyaml-cpp-dev)")
endif()
if(NOT ATHANOR_TOML_INCLUDE)
  message(FATAL_ERROR "toml++ was not found (Debian: libtomlplusplus-dev)")
endif()

add_library(athanor_yaml INTERFACE)
target_include_directories(athanor_yaml SYSTEM INTERFACE ${ATHANOR_YAML_INCLUDE})
target_link_libraries(athanor_yaml INTERFACE ${ATHANOR_YAML_LIBRARY})
add_library(athanor_toml INTERFACE)
target_include_directories(athanor_toml SYSTEM INTERFACE ${ATHANOR_TOML_INCLUDE})
