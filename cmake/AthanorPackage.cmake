# SPDX-License-Identifier: Apache-2.0
# `cpack -G DEB` makes a Debian package of the simulator from any build. The trainer is left out: it needs LibTorch 2.11
# with CUDA 13, which no Debian package provides, and a Debian package cannot depend on a wheel.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME athanor-sim)
  set(CPACK_PACKAGE_CONTACT "athanor's contributors <athanor@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Simulates and tunes the training of models larger than GPU memory")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_COMPONENTS_ALL simulator)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3)
  include(CPack)
endif()
