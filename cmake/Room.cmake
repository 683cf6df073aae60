# SPDX-License-Identifier: Apache-2.0
# sluice_room(name DEPS rooms... LIBS third-party... EXCLUDE files...): the room's sources become the library sluice_<name>, the tests
# beside them (x_test.cc) one executable. Tests named x_crash_test.cc kill processes or simulate thousands of power
# cuts; they are an executable of their own with the label `crash`.
function(sluice_unity target)
  # Kernels include themselves once for each kind of CPU, which one source cannot do for several.
  if(SLUICE_UNITY AND NOT target MATCHES "^(sluice_ops|ops_test)$")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # It takes what a source keeps to itself for a header's.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

function(sluice_test_executable target label)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE sluice_compile ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  sluice_unity(${target})
  gtest_discover_tests(${target} PROPERTIES LABELS ${label} TIMEOUT 600 DISCOVERY_TIMEOUT 60)
endfunction()

function(sluice_room name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(file ${ARG_EXCLUDE})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  # What is in cuda/ goes into libsluice_cuda.so (src/ops/cuda/CMakeLists.txt).
  list(FILTER sources EXCLUDE REGEX "/cuda/")
  set(crash_tests ${sources})
  list(FILTER crash_tests INCLUDE REGEX "_crash_test\\.cc$")
  set(unit_tests ${sources})
  list(FILTER unit_tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER unit_tests EXCLUDE REGEX "_crash_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")

  set(links sluice_compile ${ARG_LIBS})
  foreach(dep ${ARG_DEPS})
    list(APPEND links sluice_${dep})
  endforeach()
  add_library(sluice_${name} STATIC ${sources})
  target_link_libraries(sluice_${name} PUBLIC ${links})
  sluice_unity(sluice_${name})
  if(SLUICE_HAS_CUDA AND name MATCHES "^(base|tensor|device)$")
    # These are in libsluice_cuda.so too.
    set_target_properties(sluice_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()

  if(SLUICE_FUZZ)
    return()
  endif()
  if(unit_tests)
    sluice_test_executable(${name}_test unit SOURCES ${unit_tests} LINK sluice_${name})
  endif()
  if(crash_tests)
    sluice_test_executable(${name}_crash_test crash SOURCES ${crash_tests} LINK sluice_${name})
  endif()
endfunction()
