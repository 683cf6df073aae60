# SPDX-License-Identifier: Apache-2.0
# Third-party code. The portable build takes the static archive where Debian ships one, headers only where it can.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

add_library(third_party_fmt INTERFACE)
if(SLUICE_PORTABLE)
  target_link_libraries(third_party_fmt INTERFACE fmt::fmt-header-only)
  set(archive_or_shared_suffix .a)
else()
  target_link_libraries(third_party_fmt INTERFACE fmt::fmt)
  set(archive_or_shared_suffix .so)
endif()

find_library(URING_LIBRARY liburing${archive_or_shared_suffix} REQUIRED)
add_library(third_party_uring INTERFACE)
target_link_libraries(third_party_uring INTERFACE ${URING_LIBRARY})

# SIMD with run-time dispatch: AVX-512, AVX2, and what every x86-64 has. Sets between those gain too little for the
# time they take to compile.
find_library(HWY_LIBRARY libhwy.so REQUIRED)
add_library(third_party_hwy INTERFACE)
target_compile_definitions(third_party_hwy INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)")
target_link_libraries(third_party_hwy INTERFACE ${HWY_LIBRARY})

# What text needs: regular expressions with Unicode classes, Unicode normal forms, SentencePiece models.
find_library(PCRE2_LIBRARY libpcre2-8${archive_or_shared_suffix} REQUIRED)
add_library(third_party_pcre2 INTERFACE)
target_compile_definitions(third_party_pcre2 INTERFACE PCRE2_CODE_UNIT_WIDTH=8)
target_link_libraries(third_party_pcre2 INTERFACE ${PCRE2_LIBRARY})
find_library(UTF8PROC_LIBRARY libutf8proc${archive_or_shared_suffix} REQUIRED)
add_library(third_party_utf8proc INTERFACE)
target_link_libraries(third_party_utf8proc INTERFACE ${UTF8PROC_LIBRARY})
find_library(SENTENCEPIECE_LIBRARY libsentencepiece.so REQUIRED)
add_library(third_party_sentencepiece INTERFACE)
target_link_libraries(third_party_sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY})

# What train reads its configuration with.
find_library(YAML_CPP_LIBRARY libyaml-cpp${archive_or_shared_suffix} REQUIRED)
add_library(third_party_yaml_cpp INTERFACE)
target_link_libraries(third_party_yaml_cpp INTERFACE ${YAML_CPP_LIBRARY})

if(NOT SLUICE_FUZZ)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
