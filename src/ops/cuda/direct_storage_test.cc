// SPDX-License-Identifier: Apache-2.0
// Reads into a card's memory through cuFile, which goes through the host itself where the driver cannot do better, and
// checksums that the card computes.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "ops/cuda/parity.h"

namespace sluice::testing {
namespace {

class CudaDirectStorage : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    DirectStorageFinding found = card().open_direct_storage(DirectWay::kAnyhow);
    // Only a machine without the library may do without.
    const CudaLibraryFinding library = open_cuda_plugin().plugin->find_direct_storage();
    const bool is_there = !library.version.empty() || library.why_not.find("nvidia-fs") != std::string::npos;
    if (!is_there) GTEST_SKIP() << library.why_not;
    ASSERT_TRUE(found.storage) << found.why_not;
    storage_ = std::move(found.storage);
  }
  void TearDown() override { storage_.reset(); }

  static std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    Random(seed).fill(bytes);
    return bytes;
  }

  std::unique_ptr<DirectStorage> storage_;
};

TEST_F(CudaDirectStorage, SumsAreThoseOfTheHost) {
  const auto stream = card().make_stream("copies");
  for (const std::size_t size : {4 * kKiB, 64 * kKiB, kMiB, 5 * kMiB + 4 * kKiB, 40 * kMiB}) {
    for (const std::size_t chunk : {4 * kKiB, 64 * kKiB, std::size_t{kMiB}}) {
      const std::vector<std::byte> bytes = random_bytes(size, size + chunk);
      const Buffer memory = card().allocate(size, "summed");
      stream->copy(memory.bytes(), bytes);
      stream->synchronize();
      std::vector<std::uint64_t> expected;
      for (std::size_t at = 0; at < size; at += chunk) {
        expected.push_back(xxh3(std::span(bytes).subspan(at, std::min(chunk, size - at))));
      }
      EXPECT_EQ(storage_->chunk_sums(memory.bytes(), chunk), expected) << size << " in chunks of " << chunk;
    }
  }
}

TEST_F(CudaDirectStorage, ReadsWhatTheFileHolds) {
  const std::string path = ::testing::TempDir() + "sluice-direct-storage";
  const std::vector<std::byte> bytes = random_bytes(24 * kMiB, 1);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const Buffer memory = card().allocate(8 * kMiB, "read into");
  const auto stream = card().make_stream("copies");
  std::unique_ptr<DirectFile> file;
  try {
    file = storage_->open(path);
  } catch (const DeviceError& error) {  // the one refusal that is the machine's, not ours
    std::filesystem::remove(path);
    if (std::string_view(error.what()).find("udev has no entry") == std::string_view::npos) throw;
    GTEST_SKIP() << error.what();
  }
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{4 * kKiB}, std::uint64_t{16 * kMiB}}) {
    file->read(offset, memory.bytes());
    std::vector<std::byte> found(memory.size_bytes());
    stream->copy(found, memory.bytes());
    stream->synchronize();
    EXPECT_TRUE(std::equal(found.begin(), found.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset))) << offset;
  }
  EXPECT_THROW(file->read(20 * kMiB, memory.bytes()), IoError);
  std::filesystem::remove(path);
  EXPECT_THROW(storage_->open(path), IoError);
}

}  // namespace
}  // namespace sluice::testing
