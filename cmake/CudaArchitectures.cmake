# SPDX-License-Identifier: Apache-2.0
# Which cards the plug-in has kernels for. SLUICE_CUDA_ARCHITECTURES is a list as CMAKE_CUDA_ARCHITECTURES takes it, or
#   ALL     every card that Sluice supports, and PTX of the newest for those to come (docs/cards.md)
#   NATIVE  the cards of this machine; 90 where it has none, which keeps a build for tests short

# Compute capabilities without the dot. Code for X.y runs on X.z with z >= y: 10.0 serves 10.3, 12.0 serves 12.1.
set(SLUICE_SUPPORTED_ARCHITECTURES 80 86 89 90 100 120)

# Sets `result` to the list. `known`: the architectures that the toolkit compiles for; `smi`: nvidia-smi, or empty.
function(sluice_cuda_architectures result wanted known smi)
  set(list "${wanted}")
  if(wanted STREQUAL "ALL")
    set(list "")
    foreach(architecture ${SLUICE_SUPPORTED_ARCHITECTURES})
      if(architecture IN_LIST known)
        list(APPEND list ${architecture}-real)
        set(newest ${architecture})
      endif()
    endforeach()
    list(APPEND list ${newest}-virtual)
  elseif(wanted STREQUAL "NATIVE")
    set(capabilities "")
    if(smi)
      execute_process(COMMAND ${smi} --query-gpu=compute_cap --format=csv,noheader
                      OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE status TIMEOUT 20)
      if(status EQUAL 0)
        string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${text}")
      endif()
    endif()
    list(REMOVE_DUPLICATES capabilities)
    set(list "")
    foreach(capability ${capabilities})
      string(REPLACE "." "" architecture ${capability})
      if(architecture LESS 80)
        continue()  # no bf16
      elseif(architecture IN_LIST known)
        list(APPEND list ${architecture}-real)
      else()
        # Newer than the toolkit: the driver compiles the newest PTX that it can make.
        list(SORT known COMPARE NATURAL)
        list(GET known -1 newest)
        list(APPEND list ${newest}-virtual)
      endif()
    endforeach()
    if(NOT list)
      set(list 90-real)
    endif()
    list(REMOVE_DUPLICATES list)
  endif()
  set(${result} "${list}" PARENT_SCOPE)
endfunction()

# The architectures among them that there is machine code for, without "-real".
function(sluice_real_architectures result list)
  set(real "")
  foreach(architecture ${list})
    if(NOT architecture MATCHES "-virtual$")
      string(REGEX REPLACE "-real$" "" architecture "${architecture}")
      list(APPEND real ${architecture})
    endif()
  endforeach()
  set(${result} "${real}" PARENT_SCOPE)
endfunction()
