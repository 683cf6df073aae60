// SPDX-License-Identifier: Apache-2.0
#include "io/transfer.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "io/alignment.h"

namespace sluice {
namespace {

class NoFile : public File {
 public:
  explicit NoFile(Caching caching) : File("/drive/no.file", caching) {}
  std::uint64_t size_bytes() const override { return 0; }
  void preallocate(std::uint64_t) override {}
  void truncate(std::uint64_t) override {}
};

// A transfer that no kernel carries out: the test says what each completion brought.
struct Trial {
  Trial(IoOp op, Caching caching, std::uint64_t size_bytes)
      : file(caching), memory(size_bytes), state(std::make_shared<TicketState>(1)) {
    transfer.request = {.file = &file, .op = op, .offset = kOffset, .memory = memory};
    transfer.ticket = state;
  }

  // The errno of the IoError that it ended with.
  int io_errno() {
    try {
      std::rethrow_exception(state->failure());
    } catch (const IoError& error) {
      return error.errno_value();
    }
  }
  std::string message() {
    try {
      std::rethrow_exception(state->failure());
    } catch (const Error& error) {
      return error.what();
    }
  }
  template <typename ErrorType>
  bool failed_with() {
    try {
      std::rethrow_exception(state->failure());
    } catch (const ErrorType&) {
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  static constexpr std::uint64_t kOffset = 3 * kIoAlignment;
  NoFile file;
  std::vector<std::byte> memory;
  std::shared_ptr<TicketState> state;
  Transfer transfer;
};

// Reads by a kernel that brings random parts, now and then nothing, and asks for another try. Every part lies where
// the request says, so the bytes come out right only if each request asks for exactly what is missing.
void read_in_random_parts(Caching caching, std::uint64_t seed) {
  Random random(seed);
  Trial trial(IoOp::kRead, caching, 16 * kIoAlignment);
  std::vector<std::byte> file_bytes(Trial::kOffset + trial.memory.size());
  random.fill(file_bytes);
  IoRequest& request = trial.transfer.request;
  TransferStep step = TransferStep::kAgain;
  while (step == TransferStep::kAgain) {
    ASSERT_FALSE(trial.state->settled());
    ASSERT_EQ(request.offset + request.memory.size(), file_bytes.size());
    if (caching == Caching::kDirect) {
      ASSERT_TRUE(is_aligned(request.offset, kIoAlignment));
    }
    if (random.one_in(3)) {
      step = advance(trial.transfer, random.one_in(2) ? -EINTR : -EAGAIN);
      continue;
    }
    const std::uint64_t left = request.memory.size();
    const std::uint64_t moved = random.one_in(8) ? left : 1 + random.below(left);
    std::copy_n(file_bytes.begin() + static_cast<std::ptrdiff_t>(request.offset), moved, request.memory.begin());
    step = advance(trial.transfer, static_cast<std::int64_t>(moved));
  }
  EXPECT_TRUE(trial.state->settled());
  EXPECT_EQ(trial.state->failure(), nullptr);
  EXPECT_TRUE(std::equal(trial.memory.begin(), trial.memory.end(), file_bytes.begin() + Trial::kOffset));
}

TEST(Advance, RandomPartsOfAPageCacheReadAddUpToTheWhole) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) read_in_random_parts(Caching::kPageCache, seed);
}

TEST(Advance, RandomPartsOfADirectReadAddUpToTheWholeFromAlignedPlaces) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) read_in_random_parts(Caching::kDirect, seed);
}

TEST(Advance, ShortTransferLeavesTheRest) {
  Trial trial(IoOp::kWrite, Caching::kPageCache, 1000);
  EXPECT_EQ(advance(trial.transfer, 300), TransferStep::kAgain);
  EXPECT_EQ(trial.transfer.request.offset, Trial::kOffset + 300);
  EXPECT_EQ(trial.transfer.request.memory.data(), trial.memory.data() + 300);
  EXPECT_EQ(trial.transfer.request.memory.size(), 700U);
  EXPECT_EQ(advance(trial.transfer, 700), TransferStep::kFinished);
  EXPECT_EQ(trial.state->failure(), nullptr);
}

TEST(Advance, ShortDirectTransferDoesItsLastPartBlockAgain) {
  Trial trial(IoOp::kWrite, Caching::kDirect, 4 * kIoAlignment);
  EXPECT_EQ(advance(trial.transfer, 2 * kIoAlignment + 512), TransferStep::kAgain);
  EXPECT_EQ(trial.transfer.request.offset, Trial::kOffset + 2 * kIoAlignment);
  EXPECT_EQ(trial.transfer.request.memory.size(), 2 * kIoAlignment);
  EXPECT_EQ(advance(trial.transfer, 512), TransferStep::kAgain);
  EXPECT_EQ(trial.transfer.request.offset, Trial::kOffset + 2 * kIoAlignment);
}

TEST(Advance, InterruptedAndRefusedForNowAreAskedForAgainUnchanged) {
  for (const int errno_value : {EINTR, EAGAIN}) {
    Trial trial(IoOp::kRead, Caching::kPageCache, 1000);
    EXPECT_EQ(advance(trial.transfer, -errno_value), TransferStep::kAgain);
    EXPECT_EQ(trial.transfer.request.offset, Trial::kOffset);
    EXPECT_EQ(trial.transfer.request.memory.size(), 1000U);
    EXPECT_FALSE(trial.state->settled());
  }
}

TEST(Advance, ReadThatBringsNothingIsATruncatedFileAndNamesIt) {
  Trial trial(IoOp::kRead, Caching::kPageCache, 1000);
  EXPECT_EQ(advance(trial.transfer, 400), TransferStep::kAgain);
  EXPECT_EQ(advance(trial.transfer, 0), TransferStep::kFinished);
  EXPECT_TRUE(trial.failed_with<FormatError>());
  EXPECT_NE(trial.message().find("'/drive/no.file'"), std::string::npos) << trial.message();
  EXPECT_NE(trial.message().find(std::to_string(Trial::kOffset + 1000)), std::string::npos) << trial.message();
}

TEST(Advance, WriteThatMovesNothingIsAFullDrive) {
  Trial trial(IoOp::kWrite, Caching::kPageCache, 1000);
  EXPECT_EQ(advance(trial.transfer, 0), TransferStep::kFinished);
  EXPECT_EQ(trial.io_errno(), ENOSPC);
}

TEST(Advance, FailureEndsTheTransferAndSaysWhatWasWantedWhere) {
  for (const IoOp op : {IoOp::kRead, IoOp::kWrite, IoOp::kSync}) {
    Trial trial(op, Caching::kPageCache, 2048);
    EXPECT_EQ(advance(trial.transfer, -EIO), TransferStep::kFinished);
    EXPECT_EQ(trial.io_errno(), EIO);
    const std::string message = trial.message();
    const std::string verb = op == IoOp::kRead ? "read" : op == IoOp::kWrite ? "write" : "sync";
    EXPECT_EQ(message.find("cannot " + verb + " 2 KiB at offset 12288 of '/drive/no.file'"), 0U) << message;
    EXPECT_NE(message.find("dmesg"), std::string::npos) << message;
  }
}

TEST(Advance, SyncEndsWithItsFirstCompletion) {
  Trial trial(IoOp::kSync, Caching::kPageCache, 0);
  EXPECT_EQ(advance(trial.transfer, 0), TransferStep::kFinished);
  EXPECT_TRUE(trial.state->settled());
  EXPECT_EQ(trial.state->failure(), nullptr);
}

// How many completions of this kind are borne before the transfer fails.
int tries_until_failure(Trial& trial, std::int64_t result) {
  constexpr int kForEver = 1000000;
  int tries = 0;
  while (tries < kForEver && advance(trial.transfer, result) == TransferStep::kAgain) ++tries;
  EXPECT_LT(tries, kForEver);
  return tries;
}

TEST(Advance, GivesUpWhenNothingMovesForLong) {
  Trial refused(IoOp::kRead, Caching::kPageCache, 1000);
  EXPECT_GT(tries_until_failure(refused, -EAGAIN), 100);
  EXPECT_EQ(refused.io_errno(), EAGAIN);

  Trial part_block_write(IoOp::kWrite, Caching::kDirect, kIoAlignment);
  EXPECT_GT(tries_until_failure(part_block_write, 512), 100);
  EXPECT_EQ(part_block_write.io_errno(), EIO);
}

TEST(Advance, DirectReadThatStaysShortOfABlockIsATruncatedFile) {
  Trial trial(IoOp::kRead, Caching::kDirect, 2 * kIoAlignment);
  EXPECT_EQ(advance(trial.transfer, kIoAlignment + 904), TransferStep::kAgain);
  EXPECT_GT(tries_until_failure(trial, 904), 100);
  EXPECT_TRUE(trial.failed_with<FormatError>());
}

TEST(Advance, ProgressRenewsThePatience) {
  Trial impatient(IoOp::kRead, Caching::kPageCache, 1000);
  const int patience = tries_until_failure(impatient, -EAGAIN);
  Trial trial(IoOp::kRead, Caching::kPageCache, 1000);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i + 1 < patience; ++i) ASSERT_EQ(advance(trial.transfer, -EAGAIN), TransferStep::kAgain);
    ASSERT_EQ(advance(trial.transfer, 100), TransferStep::kAgain);
  }
}

TEST(Advance, CancelledTransferIsNotAskedForAgain) {
  for (const int result : {-EINTR, -EAGAIN, 400}) {
    Trial trial(IoOp::kRead, Caching::kPageCache, 1000);
    trial.state->request_cancel();
    EXPECT_EQ(advance(trial.transfer, result), TransferStep::kFinished) << result;
    EXPECT_TRUE(trial.failed_with<Cancelled>()) << result;
  }
}

TEST(Advance, CancellingDoesNotSpoilWhatHasEnded) {
  Trial whole(IoOp::kRead, Caching::kPageCache, 1000);
  whole.state->request_cancel();
  EXPECT_EQ(advance(whole.transfer, 1000), TransferStep::kFinished);
  EXPECT_EQ(whole.state->failure(), nullptr);

  Trial broken(IoOp::kRead, Caching::kPageCache, 1000);
  broken.state->request_cancel();
  EXPECT_EQ(advance(broken.transfer, -EIO), TransferStep::kFinished);
  EXPECT_EQ(broken.io_errno(), EIO);
}

TEST(Advance, CancelledByTheKernelIsCancelled) {
  Trial trial(IoOp::kWrite, Caching::kPageCache, 1000);
  EXPECT_EQ(advance(trial.transfer, -ECANCELED), TransferStep::kFinished);
  EXPECT_TRUE(trial.failed_with<Cancelled>());
}

}  // namespace
}  // namespace sluice
