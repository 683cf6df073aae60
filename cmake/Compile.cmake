# SPDX-License-Identifier: Apache-2.0
# The flags every target is compiled with, as one interface target.
add_library(sluice_compile INTERFACE)
# Designated initialisers leave members to their defaults on purpose. What nvcc's front end makes of a source is beyond
# most warnings.
set(cxx_warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Werror
                 -Wno-missing-field-initializers)
set(nvcc_warnings -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror,-Wno-missing-field-initializers)
target_compile_options(sluice_compile INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_warnings}>"
                                                "$<$<COMPILE_LANGUAGE:CUDA>:${nvcc_warnings}>")
target_include_directories(sluice_compile INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 at -O2 sees overlapping copies in std::string's operator+ that cannot be (its bug 105651).
  target_compile_options(sluice_compile INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>")
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_compile INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  target_link_options(sluice_compile INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_SANITIZE MATCHES "thread")
  # gcc says that TSan does not model std::atomic_thread_fence; only the standard library uses it here.
  target_compile_options(sluice_compile INTERFACE -Wno-tsan)
endif()
if(SLUICE_PORTABLE)
  # fmt 9 taken as headers makes gcc 13 (Ubuntu 24.04) see overflows in it that are not there.
  target_compile_options(sluice_compile
                         INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overflow>")
  # Not libgcc: what a plug-in throws is caught in the program, and two unwinders cannot share a stack.
  target_link_options(sluice_compile INTERFACE -static-libstdc++)
endif()
