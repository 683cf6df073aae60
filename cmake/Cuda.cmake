# SPDX-License-Identifier: Apache-2.0
# Whether the plug-in for NVIDIA cards is built: sets SLUICE_HAS_CUDA. Nothing else depends on a toolkit.
set(SLUICE_CUDA AUTO CACHE STRING "Build libsluice_cuda.so: ON, OFF, or AUTO where a CUDA toolkit is found")
set(SLUICE_CUDA_ARCHITECTURES "NATIVE" CACHE STRING "The cards it has kernels for: NATIVE, ALL, or as CMAKE_CUDA_ARCHITECTURES lists them")
set_property(CACHE SLUICE_CUDA PROPERTY STRINGS AUTO ON OFF)

include(CudaArchitectures)

set(SLUICE_HAS_CUDA OFF)
# Sanitizers and fuzzers look at what runs on the host.
if(SLUICE_CUDA STREQUAL "ON" OR (SLUICE_CUDA STREQUAL "AUTO" AND NOT SLUICE_SANITIZE AND NOT SLUICE_FUZZ))
  find_program(SLUICE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(SLUICE_NVCC)
    set(CMAKE_CUDA_COMPILER ${SLUICE_NVCC})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    execute_process(COMMAND ${SLUICE_NVCC} --list-gpu-code OUTPUT_VARIABLE sluice_known_codes)
    string(REGEX MATCHALL "[0-9]+" sluice_known_codes "${sluice_known_codes}")
    find_program(SLUICE_NVIDIA_SMI nvidia-smi)
    sluice_cuda_architectures(CMAKE_CUDA_ARCHITECTURES "${SLUICE_CUDA_ARCHITECTURES}" "${sluice_known_codes}"
                              "${SLUICE_NVIDIA_SMI}")
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake 3.25 does not know that newer compilers have it.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit 12.4)
  endif()
  if(SLUICE_NVCC AND CUDAToolkit_FOUND AND EXISTS ${CUDAToolkit_INCLUDE_DIRS}/cublasLt.h)
    set(SLUICE_HAS_CUDA ON)
  elseif(SLUICE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SLUICE_CUDA is ON, but no CUDA toolkit of 12.4 or newer with cuBLAS's headers was found")
  endif()
endif()

if(SLUICE_HAS_CUDA)
  # Kernels for six kinds of card are half as large so; the driver unpacks those of its card as it loads them.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    set(SLUICE_FATBIN_COMPRESSION --compress-mode=size)
  else()
    set(SLUICE_FATBIN_COMPRESSION -Xfatbin=-compress-all)
  endif()
endif()
if(SLUICE_HAS_CUDA AND CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
