# SPDX-License-Identifier: Apache-2.0
# `dist`: one folder with the binary, the plug-in for NVIDIA cards where that is built and, under lib/, whatever shared
# library they still need beyond the C library. `cuda_dist`: the same for the tests that need a card. kernels.txt in both
# lists the kernels with what they take on each architecture; one that cannot be launched somewhere fails the build.
if(SLUICE_PORTABLE)
  if(SLUICE_HAS_CUDA)
    set(plugins $<TARGET_FILE:sluice_cuda>)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    sluice_real_architectures(real_architectures "${CMAKE_CUDA_ARCHITECTURES}")
    function(check_kernels result folder)
      set(${result} COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/kernel_limits_test.py
                            ${folder}/libsluice_cuda.so $<TARGET_FILE:kernel_launches_tool>
                            --architectures ${real_architectures} --list ${folder}/kernels.txt PARENT_SCOPE)
    endfunction()
    check_kernels(check_dist ${CMAKE_BINARY_DIR}/dist)
    check_kernels(check_cuda_dist ${CMAKE_BINARY_DIR}/cuda_dist)
  endif()
  set_target_properties(sluice PROPERTIES BUILD_RPATH "$ORIGIN/lib" BUILD_RPATH_USE_ORIGIN ON)
  add_custom_target(
    dist
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/make_dist ${CMAKE_BINARY_DIR}/dist $<TARGET_FILE:sluice> ${plugins}
    ${check_dist}
    DEPENDS sluice $<TARGET_NAME_IF_EXISTS:sluice_cuda> $<TARGET_NAME_IF_EXISTS:kernel_launches_tool>
    COMMENT "Gathering the portable folder")
  if(SLUICE_HAS_CUDA)
    # With DT_RPATH, which libraries in lib/ inherit from the program: some of them need others there.
    set(card_tests cuda_test)
    if(TARGET cuda_train_test)
      list(APPEND card_tests cuda_train_test)
    endif()
    foreach(test ${card_tests})
      target_link_options(${test} PRIVATE -Wl,--disable-new-dtags)
      list(APPEND card_test_files $<TARGET_FILE:${test}>)
    endforeach()
    add_custom_target(
      cuda_dist
      COMMAND ${CMAKE_SOURCE_DIR}/scripts/make_dist ${CMAKE_BINARY_DIR}/cuda_dist ${card_test_files} ${plugins}
      ${check_cuda_dist}
      # For kernel_limits_test.py on a machine that has cuobjdump.
      COMMAND kernel_launches_tool > ${CMAKE_BINARY_DIR}/cuda_dist/kernel_launches.json
      DEPENDS ${card_tests} sluice_cuda kernel_launches_tool
      COMMENT "Gathering the tests for a card")
  endif()
endif()
