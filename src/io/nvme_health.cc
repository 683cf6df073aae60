// SPDX-License-Identifier: Apache-2.0
#include "io/nvme_health.h"

#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <limits>

#include <fmt/core.h>

#include "base/error.h"
#include "io/posix/posix_file.h"

namespace sluice {
namespace {

constexpr std::size_t kPageBytes = 512;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

// Byte offsets in the page: NVM Express Base Specification, "SMART / Health Information Log Page".
constexpr std::size_t kCriticalWarningAt = 0;
constexpr std::size_t kTemperatureAt = 1;
constexpr std::size_t kAvailableSpareAt = 3;
constexpr std::size_t kSpareThresholdAt = 4;
constexpr std::size_t kPercentageUsedAt = 5;
constexpr std::size_t kDataUnitsWrittenAt = 48;
constexpr std::size_t kPowerOnHoursAt = 128;
constexpr std::size_t kMediaErrorsAt = 160;

// A data unit is a thousand blocks of 512 bytes, whatever the drive's own block is.
constexpr std::uint64_t kDataUnitBytes = 1000 * 512;
constexpr int kKelvinAtZeroC = 273;
constexpr int kPercentageUsedCeiling = 255;

constexpr std::uint8_t kOpcodeGetLogPage = 0x02;
constexpr std::uint32_t kLogHealth = 0x02;
constexpr std::uint32_t kAllNamespaces = 0xFFFFFFFF;

std::uint8_t byte_at(std::span<const std::byte> page, std::size_t offset) {
  return std::to_integer<std::uint8_t>(page[offset]);
}

// A 128-bit little-endian counter, or 2^64 - 1 if it is beyond.
std::uint64_t counter_at(std::span<const std::byte> page, std::size_t offset) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    low |= static_cast<std::uint64_t>(byte_at(page, offset + i)) << (8 * i);
    high |= static_cast<std::uint64_t>(byte_at(page, offset + 8 + i)) << (8 * i);
  }
  return high != 0 ? kMax : low;
}

std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) { return a > kMax / b ? kMax : a * b; }

NvmeHealthReading unknown(std::string why_not) { return {.health = std::nullopt, .why_not = std::move(why_not)}; }

NvmeHealthReading unknown(const std::string& node, int errno_value) {
  switch (errno_value) {
    case EACCES:
    case EPERM:
      return unknown(fmt::format("only root may read the health of '{}'", node));
    case ENOTTY:
    case EINVAL:
      return unknown(fmt::format("'{}' is not an NVMe drive", node));
    default:
      return unknown(fmt::format("cannot read the health of '{}': {}", node, errno_text(errno_value)));
  }
}

}  // namespace

NvmeHealth parse_nvme_health(std::span<const std::byte> page) {
  if (page.size() < kPageBytes) {
    throw FormatError(fmt::format("an NVMe health log page has {} bytes and this one {}: read it from the drive again",
                                  kPageBytes, page.size()));
  }
  NvmeHealth health;
  health.critical_warning = byte_at(page, kCriticalWarningAt);
  const int kelvin = byte_at(page, kTemperatureAt) | (byte_at(page, kTemperatureAt + 1) << 8);
  if (kelvin != 0) health.temperature_c = kelvin - kKelvinAtZeroC;
  health.available_spare_percent = byte_at(page, kAvailableSpareAt);
  health.spare_threshold_percent = byte_at(page, kSpareThresholdAt);
  health.percentage_used = byte_at(page, kPercentageUsedAt);
  health.written_bytes = saturating_multiply(counter_at(page, kDataUnitsWrittenAt), kDataUnitBytes);
  health.power_on_hours = counter_at(page, kPowerOnHoursAt);
  health.media_errors = counter_at(page, kMediaErrorsAt);
  return health;
}

std::optional<std::uint64_t> rated_life_bytes(const NvmeHealth& health) {
  const bool used_known = health.percentage_used >= 1 && health.percentage_used < kPercentageUsedCeiling;
  const bool written_known = health.written_bytes > 0 && health.written_bytes < kMax;
  if (!used_known || !written_known) return std::nullopt;
  const auto percent = static_cast<std::uint64_t>(health.percentage_used);
  const std::uint64_t whole = saturating_multiply(health.written_bytes / percent, 100);
  const std::uint64_t rest = health.written_bytes % percent * 100 / percent;
  if (whole >= kMax - rest) return std::nullopt;
  return whole + rest;
}

NvmeHealthReading read_nvme_health(const std::string& node) {
  // Non-blocking, so that a name that turns out to be a pipe does not hang.
  const UniqueFd fd(::open(node.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return unknown(node, errno);
  std::array<std::byte, kPageBytes> page{};
  nvme_admin_cmd command{};
  command.opcode = kOpcodeGetLogPage;
  command.nsid = kAllNamespaces;
  command.addr = reinterpret_cast<std::uintptr_t>(page.data());
  command.data_len = kPageBytes;
  command.cdw10 = ((kPageBytes / 4 - 1) << 16) | kLogHealth;  // double words less one, log page
  const int status = ::ioctl(fd.get(), NVME_IOCTL_ADMIN_CMD, &command);
  if (status < 0) return unknown(node, errno);
  if (status > 0) return unknown(fmt::format("'{}' refused its health log with NVMe status {:#x}", node, status));
  return {.health = parse_nvme_health(page), .why_not = {}};
}

}  // namespace sluice
