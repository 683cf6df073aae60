# SPDX-License-Identifier: Apache-2.0
# `dist`: one folder with the binary, the plug-in for NVIDIA cards where that is built and, under lib/, whatever shared
# library they still need beyond the C library. `cuda_dist`: the same for the tests that need a card.
if(SLUICE_PORTABLE)
  if(SLUICE_HAS_CUDA)
    set(plugins $<TARGET_FILE:sluice_cuda>)
  endif()
  set_target_properties(sluice PROPERTIES BUILD_RPATH "$ORIGIN/lib" BUILD_RPATH_USE_ORIGIN ON)
  add_custom_target(
    dist
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/make_dist ${CMAKE_BINARY_DIR}/dist $<TARGET_FILE:sluice> ${plugins}
    DEPENDS sluice $<TARGET_NAME_IF_EXISTS:sluice_cuda>
    COMMENT "Gathering the portable folder")
  if(SLUICE_HAS_CUDA)
    # With DT_RPATH, which libraries in lib/ inherit from the program: some of them need others there.
    target_link_options(cuda_test PRIVATE -Wl,--disable-new-dtags)
    add_custom_target(
      cuda_dist
      COMMAND ${CMAKE_SOURCE_DIR}/scripts/make_dist ${CMAKE_BINARY_DIR}/cuda_dist $<TARGET_FILE:cuda_test> ${plugins}
      DEPENDS cuda_test sluice_cuda
      COMMENT "Gathering the tests for a card")
  endif()
endif()
