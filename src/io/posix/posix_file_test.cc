// SPDX-License-Identifier: Apache-2.0
#include "io/posix/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "io/scratch_directory.h"

namespace sluice {
namespace {

class PosixFileTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(directory_.path(name)) << text; }
  std::string text_of(const std::string& name) {
    std::ifstream file(directory_.path(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::unique_ptr<File> open(const std::string& name, OpenMode mode = OpenMode::kCreate) {
    return files_.open(directory_.path(name), mode, Caching::kPageCache);
  }

  ScratchDirectory directory_;
  PosixFileSystem files_;
};

struct stat status_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status;
}

// The message of the InvalidInput that `act` must end in.
std::string refusal_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

TEST_F(PosixFileTest, PreallocateExtendsWithBlocksBehindIt) {
  write("file", "begin");
  const auto file = open("file", OpenMode::kReadWrite);
  file->preallocate(kMiB);
  EXPECT_EQ(file->size_bytes(), kMiB);
  EXPECT_EQ(status_of(directory_.path("file")).st_size, static_cast<off_t>(kMiB));
  EXPECT_EQ(text_of("file"), "begin" + std::string(kMiB - 5, '\0'));

  // As many blocks as the kernel gives for the asking, where it gives any.
  const int fd = ::open(directory_.path("asked").c_str(), O_RDWR | O_CREAT, 0600);
  if (::fallocate(fd, 0, 0, kMiB) == 0) {
    EXPECT_GE(status_of(directory_.path("file")).st_blocks, status_of(directory_.path("asked")).st_blocks);
  }
  ::close(fd);

  file->preallocate(100);
  EXPECT_EQ(file->size_bytes(), kMiB);  // never less
}

TEST_F(PosixFileTest, TruncateCutsAndExtends) {
  write("file", "0123456789");
  const auto file = open("file");
  file->truncate(4);
  EXPECT_EQ(text_of("file"), "0123");
  file->truncate(6);
  EXPECT_EQ(text_of("file"), std::string("0123\0\0", 6));
}

TEST_F(PosixFileTest, OpensOnlyWhatTheModeAllows) {
  EXPECT_THROW(open("none", OpenMode::kReadOnly), InvalidInput);
  EXPECT_THROW(open("none", OpenMode::kReadWrite), InvalidInput);
  EXPECT_FALSE(files_.exists(directory_.path("none")));
  open("made");
  EXPECT_TRUE(files_.exists(directory_.path("made")));
  write("made", "kept");
  open("made");
  EXPECT_EQ(text_of("made"), "kept");
  EXPECT_THROW(open("made", OpenMode::kReadOnly)->truncate(0), Error);
}

TEST_F(PosixFileTest, RenameReplacesAndRemoveForgives) {
  write("new", "new text");
  write("old", "old text");
  files_.rename(directory_.path("new"), directory_.path("old"));
  EXPECT_EQ(text_of("old"), "new text");
  EXPECT_FALSE(std::filesystem::exists(directory_.path("new")));
  files_.remove(directory_.path("old"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_NO_THROW(files_.remove(directory_.path("old")));  // gone already
  EXPECT_THROW(files_.rename(directory_.path("new"), directory_.path("old")), InvalidInput);
}

TEST_F(PosixFileTest, ListIsSorted) {
  for (const char* name : {"c", "a", "d", ".b"}) write(name, "");
  EXPECT_EQ(files_.list(directory_.path()), (std::vector<std::string>{".b", "a", "c", "d"}));
}

TEST_F(PosixFileTest, FreeBytesAreThoseOfTheFileSystem) {
  const std::uint64_t free_bytes = files_.free_bytes(directory_.path());
  EXPECT_GT(free_bytes, 0U);
  EXPECT_LE(free_bytes, std::filesystem::space(directory_.path()).capacity);
  EXPECT_NO_THROW(files_.sync_directory(directory_.path()));
}

TEST_F(PosixFileTest, MissingDirectoryIsTheUsersMistakeAndSaysWhatToDo) {
  const std::string missing = directory_.path("missing");
  const std::vector<std::function<void()>> uses{
      [&] { files_.require_directory(missing, OpenMode::kReadWrite); },
      [&] { files_.list(missing); },
      [&] { files_.sync_directory(missing); },
      [&] { files_.free_bytes(missing); },
  };
  for (const auto& use : uses) {
    const std::string message = refusal_of(use);
    EXPECT_NE(message.find(missing), std::string::npos) << message;
    EXPECT_NE(message.find("check the path, or make the directory first"), std::string::npos) << message;
  }
}

// A missing input path gets no advice to create it.
TEST_F(PosixFileTest, WhatIsMissingWhereItIsReadIsAMistakenPath) {
  const std::string missing = directory_.path("missing");
  const std::string folder = refusal_of([&] { files_.require_directory(missing, OpenMode::kReadOnly); });
  EXPECT_NE(folder.find("check the path"), std::string::npos) << folder;
  EXPECT_EQ(folder.find("make"), std::string::npos) << folder;
  const std::string file = refusal_of([&] { files_.open(missing, OpenMode::kReadOnly, Caching::kPageCache); });
  EXPECT_NE(file.find("check the path"), std::string::npos) << file;
  EXPECT_EQ(file.find("make"), std::string::npos) << file;
  const std::string made = refusal_of([&] { open("missing/file"); });
  EXPECT_NE(made.find("make the directory that it goes into first"), std::string::npos) << made;
}

// Opening a directory succeeds, but a later read fails with an errno that looks like a drive error.
TEST_F(PosixFileTest, ADirectoryInPlaceOfAFileIsTheUsersMistake) {
  const std::string message =
      refusal_of([&] { files_.open(directory_.path(), OpenMode::kReadOnly, Caching::kPageCache); });
  EXPECT_NE(message.find("is a directory; name a file in it"), std::string::npos) << message;
  EXPECT_EQ(message.find("dmesg"), std::string::npos) << message;
}

TEST_F(PosixFileTest, AZeroByteInAPathOpensNoOtherFile) {
  write("file", "bytes");
  const std::string path = directory_.path("file") + std::string(1, '\0') + "other";
  const std::vector<std::function<void()>> uses{
      [&] { files_.open(path, OpenMode::kReadOnly, Caching::kPageCache); },
      [&] { files_.exists(path); },
      [&] { files_.require_directory(path, OpenMode::kReadOnly); },
  };
  for (const auto& use : uses) {
    const std::string message = refusal_of(use);
    EXPECT_NE(message.find("file\\0other"), std::string::npos) << message;  // with the NUL byte made visible
    EXPECT_NE(message.find("zero byte"), std::string::npos) << message;
  }
}

TEST_F(PosixFileTest, FileInPlaceOfADirectoryIsTheUsersMistakeAndSaysWhatToDo) {
  write("file", "");
  const std::string path = directory_.path("file");
  const std::vector<std::function<void()>> uses{
      [&] { files_.require_directory(path, OpenMode::kReadWrite); },
      [&] { files_.list(path); },
      [&] { files_.sync_directory(path); },
  };
  for (const auto& use : uses) {
    const std::string message = refusal_of(use);
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find("name a directory"), std::string::npos) << message;
  }
  EXPECT_NO_THROW(files_.require_directory(directory_.path(), OpenMode::kReadWrite));
}

// A child process that holds the lock until told to exit: its pid, and the pipe that tells it.
class LockingChild {
 public:
  explicit LockingChild(const std::string& path) {
    int told[2];
    EXPECT_EQ(::pipe(told), 0);
    EXPECT_EQ(::pipe(end_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto lock = PosixFileSystem().lock(path);
      char byte = 0;
      [[maybe_unused]] ssize_t count = ::write(told[1], &byte, 1);
      ::close(end_[1]);
      count = ::read(end_[0], &byte, 1);
      ::_exit(0);
    }
    char byte = 0;
    EXPECT_EQ(::read(told[0], &byte, 1), 1);
    ::close(told[0]);
    ::close(told[1]);
    ::close(end_[0]);
  }
  ~LockingChild() {
    ::close(end_[1]);
    ::waitpid(pid_, nullptr, 0);
  }
  LockingChild(const LockingChild&) = delete;
  LockingChild& operator=(const LockingChild&) = delete;

  pid_t pid() const { return pid_; }

 private:
  int end_[2] = {};
  pid_t pid_ = -1;
};

TEST_F(PosixFileTest, SecondLockNamesTheHolderAndTheRemedy) {
  write("file", "");
  const std::string path = directory_.path("file");
  {
    const LockingChild other(path);
    const std::string message = refusal_of([&] { files_.lock(path); });
    EXPECT_NE(message.find("'" + directory_.path() + "' is in use by process " + std::to_string(other.pid()) + ":"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("wait until it has ended, or name another directory"), std::string::npos) << message;
  }
  EXPECT_NO_THROW(files_.lock(path));
  EXPECT_EQ(files_.list(directory_.path()), std::vector<std::string>{"file"}) << "a lock leaves nothing behind";
}

TEST_F(PosixFileTest, ALockIsOnTheFileNotOnItsName) {
  write("new", "");
  auto lock = files_.lock(directory_.path("new"));
  files_.rename(directory_.path("new"), directory_.path("file"));
  EXPECT_THROW(files_.lock(directory_.path("file")), InvalidInput);
  write("new", "");
  EXPECT_NO_THROW(files_.lock(directory_.path("new")));
  EXPECT_THROW(files_.lock(directory_.path("none")), InvalidInput);
}

}  // namespace
}  // namespace sluice
