// SPDX-License-Identifier: Apache-2.0
// A tier's memory as an object. A Reservation owns part of it and gives that part back when it dies; what does not fit
// is refused, naming who asked, for what, and what was left. Enforced, not estimated. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

class Budget;

class [[nodiscard]] Reservation {
 public:
  Reservation() = default;
  ~Reservation() { release(); }
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  std::uint64_t size_bytes() const { return size_bytes_; }
  void release();

 private:
  friend class Budget;
  Reservation(Budget& budget, std::uint64_t size_bytes) : budget_(&budget), size_bytes_(size_bytes) {}

  Budget* budget_ = nullptr;
  std::uint64_t size_bytes_ = 0;
};

class Budget {
 public:
  Budget(std::string name, std::uint64_t limit_bytes) : name_(std::move(name)), limit_bytes_(limit_bytes) {}
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Throws OutOfBudget.
  Reservation reserve(std::uint64_t size_bytes, std::string_view who);

  const std::string& name() const { return name_; }
  std::uint64_t limit_bytes() const { return limit_bytes_; }
  std::uint64_t used_bytes() const;
  std::uint64_t peak_bytes() const;
  std::uint64_t left_bytes() const;

 private:
  friend class Reservation;
  void give_back(std::uint64_t size_bytes);

  const std::string name_;
  const std::uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
};

}  // namespace sluice
