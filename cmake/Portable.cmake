# SPDX-License-Identifier: Apache-2.0
# `dist`: one folder with the binary and, under lib/, whatever shared library it still needs beyond the C library.
if(SLUICE_PORTABLE)
  set_target_properties(sluice PROPERTIES BUILD_RPATH "$ORIGIN/lib" BUILD_RPATH_USE_ORIGIN ON)
  add_custom_target(
    dist
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/make_dist $<TARGET_FILE:sluice> ${CMAKE_BINARY_DIR}/dist
    DEPENDS sluice
    COMMENT "Gathering the portable folder")
endif()
