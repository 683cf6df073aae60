// SPDX-License-Identifier: Apache-2.0
// The typed failures that end a run or a request. A message is one sentence for the user: what was wanted, what was
// found, where (path, offset, key), and what to do about it. Expected outcomes are values, bugs are CHECK.
#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

// Replaces NUL bytes, which a file name or value may hold, by "\0": a C string such as what() would end there.
std::string without_zero_bytes(const std::string& message);

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);

  // What the process exits with when this ends it: 1 for failures, 2 for mistakes that the user can mend.
  virtual int exit_code() const { return 1; }
};

// A drive, file system or kernel refused or failed.
class IoError : public Error {
 public:
  IoError(int errno_value, const std::string& message) : Error(message), errno_value_(errno_value) {}
  int errno_value() const { return errno_value_; }

 private:
  int errno_value_;
};

// The transfer was withdrawn before it finished; nobody is to blame.
class Cancelled : public Error {
 public:
  using Error::Error;
};

class DeviceError : public Error {
 public:
  using Error::Error;
};

// Bytes that do not mean what they should: damage, truncation, another format.
class FormatError : public Error {
 public:
  using Error::Error;
};

// An allocation beyond a budget: names what was asked, by whom, and what was left.
class OutOfBudget : public Error {
 public:
  using Error::Error;
};

class InvalidInput : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 2; }
};

// "No such file or directory" for ENOENT, and so on; thread-safe.
std::string errno_text(int errno_value);

}  // namespace sluice
