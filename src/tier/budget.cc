// SPDX-License-Identifier: Apache-2.0
#include "tier/budget.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"

namespace sluice {

Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    release();
    budget_ = std::exchange(other.budget_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

void Reservation::release() {
  if (budget_ != nullptr) budget_->give_back(size_bytes_);
  budget_ = nullptr;
  size_bytes_ = 0;
}

Budget::~Budget() { CHECK(used_bytes_ == 0, "reservations die before their budget"); }

Reservation Budget::reserve(std::uint64_t size_bytes, std::string_view who) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t left = limit_bytes_ - used_bytes_;
  if (size_bytes > left) {
    throw OutOfBudget(
        fmt::format("{} asked for {} of {} memory, but of the budget of {} only {} is left: raise the {} "
                    "budget",
                    who, format_bytes(size_bytes), name_, format_bytes(limit_bytes_), format_bytes(left), name_));
  }
  used_bytes_ += size_bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return Reservation(*this, size_bytes);
}

void Budget::give_back(std::uint64_t size_bytes) {
  const std::scoped_lock lock(mutex_);
  CHECK(size_bytes <= used_bytes_, "only what was reserved is given back");
  used_bytes_ -= size_bytes;
}

std::uint64_t Budget::used_bytes() const {
  const std::scoped_lock lock(mutex_);
  return used_bytes_;
}

std::uint64_t Budget::peak_bytes() const {
  const std::scoped_lock lock(mutex_);
  return peak_bytes_;
}

std::uint64_t Budget::left_bytes() const {
  const std::scoped_lock lock(mutex_);
  return limit_bytes_ - used_bytes_;
}

}  // namespace sluice
