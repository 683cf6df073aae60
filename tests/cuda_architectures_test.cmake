# SPDX-License-Identifier: Apache-2.0
# cmake -DCMAKE_FOLDER=... -DWORK=... -P cuda_architectures_test.cmake: which cards a build has kernels for, with programs
# that stand in for nvidia-smi.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_FOLDER}/CudaArchitectures.cmake)

set(toolkit_13 75 80 86 87 88 89 90 100 110 103 120 121)
set(toolkit_12_4 50 75 80 86 87 89 90)
file(MAKE_DIRECTORY ${WORK})

# A program that prints the lines and exits with the status.
function(write_smi path lines status)
  file(WRITE ${path} "#!/bin/sh\nprintf '${lines}'\nexit ${status}\n")
  file(CHMOD ${path} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

function(expect what wanted known smi expected)
  sluice_cuda_architectures(found "${wanted}" "${known}" "${smi}")
  if(NOT found STREQUAL expected)
    message(SEND_ERROR "${what}: '${found}' instead of '${expected}'")
  endif()
endfunction()

expect("releases" ALL "${toolkit_13}" "" "80-real;86-real;89-real;90-real;100-real;120-real;120-virtual")
expect("releases by an older toolkit" ALL "${toolkit_12_4}" "" "80-real;86-real;89-real;90-real;90-virtual")
expect("a list" "80;90" "${toolkit_13}" "" "80;90")
expect("no nvidia-smi" NATIVE "${toolkit_13}" "" "90-real")
write_smi(${WORK}/none "No devices were found\\n" 6)
expect("no card" NATIVE "${toolkit_13}" ${WORK}/none "90-real")
write_smi(${WORK}/one "8.9\\n" 0)
expect("one card" NATIVE "${toolkit_13}" ${WORK}/one "89-real")
write_smi(${WORK}/several "8.6\\n12.0\\n8.6\\n" 0)
expect("several cards" NATIVE "${toolkit_13}" ${WORK}/several "86-real;120-real")
write_smi(${WORK}/old "7.5\\n" 0)
expect("a card without bf16" NATIVE "${toolkit_13}" ${WORK}/old "90-real")
write_smi(${WORK}/new "12.0\\n" 0)
expect("a card that the toolkit does not know" NATIVE "${toolkit_12_4}" ${WORK}/new "90-virtual")

sluice_real_architectures(real "80-real;90;120-virtual")
if(NOT real STREQUAL "80;90")
  message(SEND_ERROR "machine code: '${real}'")
endif()
