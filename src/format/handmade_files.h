// SPDX-License-Identifier: Apache-2.0
// For tests: safetensors files put together byte by byte, without any of the code under test, and a fake disk to lay
// them on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/fake/fake_disk.h"

namespace sluice {

inline std::string handmade_safetensors(const std::string& json, const std::string& data) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes += static_cast<char>((static_cast<std::uint64_t>(json.size()) >> (8 * i)) & 0xFFU);
  }
  return bytes + json + data;
}

inline std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline void put_file(FakeDisk& disk, const std::string& path, const std::string& text) {
  disk.remove(path);
  const auto file = disk.open(path, OpenMode::kCreate, Caching::kPageCache);
  FakeEngine(disk).submit(IoRequest::write(*file, 0, bytes_of_text(text))).wait();
}

inline std::string text_of_file(const FakeDisk& disk, const std::string& path) {
  const std::vector<std::byte> bytes = disk.contents(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The message of the failure of type E that `act` must end in.
template <typename E, typename Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

}  // namespace sluice
