// SPDX-License-Identifier: Apache-2.0
// One suite for every IoEngine: what a caller may rely on, whoever carries the bytes.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "io/fake/fake_disk.h"
#include "io/io_engine.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"
#include "io/uring/uring_engine.h"

namespace sluice {
namespace {

enum class Kind { kUring, kThreads, kFake };

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  switch (info.param) {
    case Kind::kUring:
      return "Uring";
    case Kind::kThreads:
      return "Threads";
    case Kind::kFake:
      return "Fake";
  }
  return {};
}

using Bytes = std::vector<std::byte>;

// For what a broken engine might do right by being fast.
constexpr int kRounds = 10;

Bytes random_bytes(std::uint64_t seed, std::uint64_t size) {
  Bytes bytes(size);
  Random(seed).fill(bytes);
  return bytes;
}

class EngineTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    try {
      start_engine();
    } catch (const IoError& refusal) {
      if (GetParam() != Kind::kUring) throw;
      GTEST_SKIP() << refusal.what();
    }
  }

  void start_engine() {
    fake_engine_ = nullptr;
    switch (GetParam()) {
      case Kind::kUring:
        engine_ = std::make_unique<UringEngine>();
        break;
      case Kind::kThreads:
        engine_ = std::make_unique<ThreadsEngine>();
        break;
      case Kind::kFake: {
        auto fake = std::make_unique<FakeEngine>(disk_);
        fake_engine_ = fake.get();
        engine_ = std::move(fake);
        break;
      }
    }
  }

  FileSystem& files() {
    if (GetParam() == Kind::kFake) return disk_;
    return posix_;
  }
  std::string path(const std::string& name) const { return directory_.path(name); }
  std::unique_ptr<File> create(const std::string& name) {
    return files().open(path(name), OpenMode::kCreate, Caching::kPageCache);
  }
  // Past the page cache, where the file system can.
  std::unique_ptr<File> open_direct(const std::string& name) {
    try {
      return files().open(path(name), OpenMode::kCreate, Caching::kDirect);
    } catch (const IoError&) {
      return create(name);
    }
  }
  // A file that holds `bytes`.
  std::unique_ptr<File> create(const std::string& name, const Bytes& bytes) {
    auto file = create(name);
    engine_->submit(IoRequest::write(*file, 0, bytes)).wait();
    return file;
  }
  // Without the engine's help.
  Bytes on_disk(const std::string& name) const {
    return GetParam() == Kind::kFake ? disk_.contents(path(name)) : bytes_of(path(name));
  }
  // The fake engine ends transfers at once unless told otherwise; the kernel's take their time anyway.
  void make_transfers_linger() {
    disk_.set_hook([](const FakeOperation&) { return Fault::kDelay; });
  }

  ScratchDirectory directory_;
  FakeDisk disk_;
  PosixFileSystem posix_;
  FakeEngine* fake_engine_ = nullptr;
  std::unique_ptr<IoEngine> engine_;
};

TEST_P(EngineTest, RoundTripsTenMebibytesWithUnalignedEnds) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{777}, kMiB - 1}) {
    const std::string name = "at-" + std::to_string(offset);
    const Bytes before = random_bytes(1, offset);
    const Bytes bytes = random_bytes(2, 10 * kMiB + 12345);
    const auto file = create(name, before);
    engine_->submit(IoRequest::write(*file, offset, bytes)).wait();

    Bytes expected = before;
    expected.insert(expected.end(), bytes.begin(), bytes.end());
    EXPECT_TRUE(on_disk(name) == expected);

    // Back in three odd pieces, in one call.
    Bytes read(bytes.size());
    const std::span<std::byte> into(read);
    engine_
        ->submit(std::vector{IoRequest::read(*file, offset, into.first(1)),
                             IoRequest::read(*file, offset + 1, into.subspan(1, 3 * kMiB + 5)),
                             IoRequest::read(*file, offset + 3 * kMiB + 6, into.subspan(3 * kMiB + 6))})
        .wait();
    EXPECT_TRUE(read == bytes);
  }
}

TEST_P(EngineTest, ReadPastTheEndIsAFormatErrorAtWaitThatNamesTheFile) {
  const auto file = create("short", random_bytes(3, 5000));
  for (const std::uint64_t offset : {0, 4096, 5000, 100000}) {
    Bytes into(8192);
    Ticket ticket = engine_->submit(IoRequest::read(*file, offset, into));
    try {
      ticket.wait();
      ADD_FAILURE() << "nothing was thrown at offset " << offset;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(path("short")), std::string::npos) << error.what();
    }
  }
}

TEST_P(EngineTest, DirectReadPastAnEndInsideABlockIsAFormatErrorToo) {
  const auto file = open_direct("short");
  file->truncate(5000);
  const PageMemory into(8192);
  EXPECT_THROW(engine_->submit(IoRequest::read(*file, 0, into.bytes())).wait(), FormatError);
}

TEST_P(EngineTest, FailureIsRethrownAtWaitOnceAndTheRestIsDone) {
  const Bytes old_bytes = random_bytes(4, 10000);
  const Bytes new_bytes = random_bytes(5, 10000);
  create("refusing", old_bytes);
  const auto good = create("good", old_bytes);
  const auto refusing = files().open(path("refusing"), OpenMode::kReadOnly, Caching::kPageCache);
  const int expected_errno = GetParam() == Kind::kFake ? EIO : EBADF;
  disk_.set_hook([&](const FakeOperation& operation) {
    return operation.path == path("refusing") && operation.op == FakeOp::kWrite ? Fault::kEio : Fault::kNone;
  });

  Ticket ticket = engine_->submit(std::vector{IoRequest::write(*good, 0, std::span(new_bytes).first(5000)),
                                              IoRequest::write(*refusing, 0, new_bytes),
                                              IoRequest::write(*good, 5000, std::span(new_bytes).subspan(5000))});
  try {
    ticket.wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const IoError& error) {
    EXPECT_EQ(error.errno_value(), expected_errno);
    EXPECT_NE(std::string(error.what()).find(path("refusing")), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(ticket.wait());
  EXPECT_TRUE(on_disk("good") == new_bytes);
  EXPECT_TRUE(on_disk("refusing") == old_bytes);
  Bytes read(old_bytes.size());
  EXPECT_NO_THROW(engine_->submit(IoRequest::read(*refusing, 0, read)).wait());
  EXPECT_TRUE(read == old_bytes);
}

// Writes and reads at random places of [begin, begin + size), each compared with what a plain vector says.
void write_and_read_region(IoEngine& engine, File& file, std::uint64_t begin, std::uint64_t size) {
  Random random(begin + 1);
  Bytes model(size);
  engine.submit(IoRequest::write(file, begin, model)).wait();
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t offset = random.below(size);
    const std::uint64_t count = 1 + random.below(size - offset);
    if (random.one_in(2)) {
      random.fill(std::span(model).subspan(offset, count));
      engine.submit(IoRequest::write(file, begin + offset, std::span(model).subspan(offset, count))).wait();
    } else {
      Bytes read(count);
      engine.submit(IoRequest::read(file, begin + offset, read)).wait();
      ASSERT_TRUE(std::equal(read.begin(), read.end(), model.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
  }
  Bytes all(size);
  engine.submit(IoRequest::read(file, begin, all)).wait();
  ASSERT_TRUE(all == model);
}

TEST_P(EngineTest, EightThreadsEachReadBackWhatTheyWrote) {
  constexpr std::uint64_t kRegionBytes = 100001;
  const auto file = create("shared");
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { write_and_read_region(*engine_, *file, i * kRegionBytes, kRegionBytes); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(EngineTest, DroppedTicketHasMovedEverything) {
  const Bytes bytes = random_bytes(6, 16 * kMiB);
  const auto file = create("data", bytes);
  make_transfers_linger();
  for (int round = 0; round < kRounds; ++round) {
    Bytes read(bytes.size());
    Ticket ticket = engine_->submit(IoRequest::read(*file, 0, read));
    std::thread completer;
    if (fake_engine_ != nullptr) completer = std::thread([&] { fake_engine_->complete_delayed(); });
    { const Ticket dropped = std::move(ticket); }
    EXPECT_TRUE(std::equal(read.rbegin(), read.rend(), bytes.rbegin()));  // the last piece comes last
    if (completer.joinable()) completer.join();
  }
}

TEST_P(EngineTest, TakesMoreRequestsThanItsQueueIsDeep) {
  constexpr std::uint64_t kBlockBytes = 4096;
  constexpr std::uint64_t kBlocks = 500;
  const Bytes bytes = random_bytes(7, kBlocks * kBlockBytes);
  const auto file = create("many");
  std::vector<IoRequest> requests;
  for (std::uint64_t i = kBlocks; i-- > 0;) {
    requests.push_back(
        IoRequest::write(*file, i * kBlockBytes, std::span(bytes).subspan(i * kBlockBytes, kBlockBytes)));
  }
  engine_->submit(requests).wait();
  EXPECT_TRUE(on_disk("many") == bytes);

  Bytes read(bytes.size());
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    const std::span<std::byte> block = std::span(read).subspan(i * kBlockBytes, kBlockBytes);
    tickets.push_back(engine_->submit(IoRequest::read(*file, i * kBlockBytes, block)));
  }
  for (Ticket& ticket : tickets) ticket.wait();
  EXPECT_TRUE(read == bytes);
}

// Two files and two buffers of which one each is registered, in every combination.
TEST_P(EngineTest, RegisteredMemoryAndFilesMoveTheSameBytes) {
  constexpr std::uint64_t kSize = 3 * kMiB;
  const std::unique_ptr<File> plain_file = open_direct("plain");
  const std::unique_ptr<File> other_file = open_direct("other");
  const std::unique_ptr<File> file = open_direct("registered");
  const PageMemory plain_memory(kSize);
  const PageMemory other_memory(kMiB);
  const PageMemory memory(kSize + kMiB);
  auto expect_round_trips = [&, seed = std::uint64_t{20}]() mutable {
    for (const auto& [name, target] : {std::pair("plain", plain_file.get()), std::pair("registered", file.get())}) {
      for (const std::span<std::byte> window : {plain_memory.bytes(), memory.bytes().subspan(12288, kSize)}) {
        const Bytes bytes = random_bytes(++seed, kSize);
        std::copy(bytes.begin(), bytes.end(), window.begin());
        engine_->submit(IoRequest::write(*target, 0, window)).wait();
        engine_->submit(IoRequest::sync(*target)).wait();
        EXPECT_TRUE(on_disk(name) == bytes) << name;
        std::fill(window.begin(), window.end(), std::byte{0});
        engine_->submit(IoRequest::read(*target, 0, window)).wait();
        EXPECT_TRUE(std::equal(window.begin(), window.end(), bytes.begin())) << name;
      }
    }
  };
  {
    // The others come first, so that no registration in use has the number 0.
    const Registration registrations[] = {engine_->register_memory(other_memory.bytes()),
                                          engine_->register_file(*other_file), engine_->register_memory(memory.bytes()),
                                          engine_->register_file(*file)};
    expect_round_trips();
  }
  expect_round_trips();  // and when nothing is registered any more
}

// A block is read or it is not, and the ticket says Cancelled exactly when one was not.
TEST_P(EngineTest, CancelSettlesTheTicketAndTellsWhetherAllWasDone) {
  constexpr std::uint64_t kBlocks = 64;
  const Bytes bytes(kBlocks * kMiB, std::byte{0xA5});
  const auto file = create("data", bytes);
  make_transfers_linger();
  bool was_cancelled = false;
  // A kernel that is done before cancel() is called may have its way a few times.
  for (int attempt = 0; attempt < 100 && !was_cancelled; ++attempt) {
    Bytes read(bytes.size());
    Ticket ticket = engine_->submit(IoRequest::read(*file, 0, read));
    ticket.cancel();
    if (fake_engine_ != nullptr) fake_engine_->complete_delayed();
    try {
      ticket.wait();
    } catch (const Cancelled&) {
      was_cancelled = true;
    }
    std::uint64_t num_unread = 0;
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      const auto block = std::span(read).subspan(i * kMiB, kMiB);
      ASSERT_TRUE(std::equal(block.begin() + 1, block.end(), block.begin())) << "block " << i << " is half read";
      num_unread += block.front() == std::byte{0} ? 1 : 0;
    }
    EXPECT_EQ(num_unread > 0, was_cancelled);
  }
  EXPECT_TRUE(was_cancelled);
}

TEST_P(EngineTest, DestructionFinishesWhatIsOutstanding) {
  constexpr std::uint64_t kPieceBytes = 200 * kKiB;
  const Bytes bytes = random_bytes(12, 80 * kPieceBytes);  // more pieces than a queue is deep
  const auto file = create("data", bytes);
  make_transfers_linger();
  for (int round = 0; round < kRounds; ++round) {
    Bytes read(bytes.size());
    std::vector<IoRequest> requests;
    for (std::uint64_t offset = 0; offset < read.size(); offset += kPieceBytes) {
      requests.push_back(IoRequest::read(*file, offset, std::span(read).subspan(offset, kPieceBytes)));
    }
    auto ticket = std::make_unique<Ticket>(engine_->submit(requests));
    engine_.reset();
    if (!ticket->done()) {
      static_cast<void>(ticket.release());  // its destructor would wait for ever
      FAIL() << "the engine left transfers behind";
    }
    EXPECT_NO_THROW(ticket->wait());
    EXPECT_TRUE(read == bytes);
    start_engine();
  }
}

TEST_P(EngineTest, NothingToDoIsDone) {
  const auto file = create("empty");
  EXPECT_TRUE(engine_->submit(std::vector<IoRequest>{}).done());
  EXPECT_TRUE(engine_->submit(IoRequest::read(*file, 0, {})).done());
  EXPECT_NO_THROW(engine_->submit(IoRequest::sync(*file)).wait());
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineTest, testing::Values(Kind::kUring, Kind::kThreads, Kind::kFake), kind_name);

TEST(IoEngineDeathTest, MisalignedDirectTransferIsABug) {
  FakeDisk disk;
  FakeEngine engine(disk);
  const auto file = disk.open("/d/file", OpenMode::kCreate, Caching::kDirect);
  const PageMemory memory(8192);
  const std::span<std::byte> bytes = memory.bytes();
  EXPECT_DEATH(engine.submit(IoRequest::write(*file, 512, bytes.first(4096))).wait(), "aligned");
  EXPECT_DEATH(engine.submit(IoRequest::write(*file, 0, bytes.first(512))).wait(), "aligned");
  EXPECT_DEATH(engine.submit(IoRequest::write(*file, 0, bytes.subspan(512, 4096))).wait(), "aligned");
}

}  // namespace
}  // namespace sluice
