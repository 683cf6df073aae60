# SPDX-License-Identifier: Apache-2.0
# Third-party code. The portable build takes the static archive where Debian ships one, headers only where it can.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

add_library(third_party_fmt INTERFACE)
add_library(third_party_spdlog INTERFACE)
if(SLUICE_PORTABLE)
  target_link_libraries(third_party_fmt INTERFACE fmt::fmt-header-only)
  target_link_libraries(third_party_spdlog INTERFACE spdlog::spdlog_header_only fmt::fmt-header-only)
  set(archive_or_shared_suffix .a)
else()
  target_link_libraries(third_party_fmt INTERFACE fmt::fmt)
  target_link_libraries(third_party_spdlog INTERFACE spdlog::spdlog)
  set(archive_or_shared_suffix .so)
endif()

find_library(URING_LIBRARY liburing${archive_or_shared_suffix} REQUIRED)
add_library(third_party_uring INTERFACE)
target_link_libraries(third_party_uring INTERFACE ${URING_LIBRARY})

if(NOT SLUICE_FUZZ)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
