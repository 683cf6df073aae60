// SPDX-License-Identifier: Apache-2.0
#include "tier/store_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "tier/store_files.h"

namespace sluice {
namespace {

using Kind = StoreFinding::Kind;

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Headers that cannot be parsed, by the position of their directory. A directory with a journal or beside a whole
// header of the same store is ours even if its first bytes are not.
std::map<std::size_t, std::string> damaged_headers(const StoreHome& home) {
  std::map<std::size_t, std::string> damaged;
  for (std::size_t i = 0; i < home.directories.size(); ++i) {
    const std::string path = data_path(home.directories[i]);
    home.files.require_directory(home.directories[i], OpenMode::kReadOnly);
    if (!home.files.exists(path)) continue;
    const auto file = home.files.open(path, OpenMode::kReadOnly, home.caching);
    PageMemory block(kBlockBytes);
    if (file->size_bytes() >= kBlockBytes) home.engine.submit(IoRequest::read(*file, 0, block.bytes())).wait();
    try {
      parse_drive_header(block.bytes(), path);
    } catch (const FormatError& error) {
      damaged[i] = error.what();
    } catch (const InvalidInput& error) {
      if (has_drive_magic(block.bytes()) || !SliceStore::holds_store(home)) throw;
      damaged[i] = fmt::format("the header of '{}' is damaged", path);
    }
  }
  return damaged;
}

std::string directory_with(const StoreHome& home, const std::string& name) {
  for (const std::string& directory : home.directories) {
    if (home.files.exists(directory + name)) return directory;
  }
  return home.directories.front();
}

// Ours are, up to where extents begin; somebody else's file hardly is.
bool blank_behind_header(const StoreHome& home, File& file) {
  if (file.size_bytes() < kDataStart) return false;
  const PageMemory blank(kDataStart - kBlockBytes);
  home.engine.submit(IoRequest::read(file, kBlockBytes, blank.bytes())).wait();
  return std::all_of(blank.bytes().begin(), blank.bytes().end(), [](std::byte value) { return value == std::byte{0}; });
}

// Writes the one damaged header anew from the journal. False where that is not possible.
bool repair_header(const StoreHome& home, std::size_t damaged_idx) {
  const JournalContents contents =
      read_journal({home.files, home.engine, directory_with(home, "/journal.a"), directory_with(home, "/journal.b")});
  if (contents.base.weights.size() != home.directories.size()) return false;
  std::set<std::uint32_t> missing;
  for (std::uint32_t i = 0; i < home.directories.size(); ++i) missing.insert(i);
  for (std::size_t i = 0; i < home.directories.size(); ++i) {
    if (i == damaged_idx) continue;
    const auto file = home.files.open(data_path(home.directories[i]), OpenMode::kReadOnly, home.caching);
    const DriveHeader header = read_header(home, *file);
    if (header.store_id != contents.store_id) return false;
    missing.erase(header.drive_idx);
  }
  const auto lock = home.files.lock(data_path(home.directories[damaged_idx]));
  const auto file = home.files.open(data_path(home.directories[damaged_idx]), OpenMode::kReadWrite, home.caching);
  if (!blank_behind_header(home, *file)) return false;
  write_header(home, *file,
               {.store_id = contents.store_id,
                .drive_idx = *missing.begin(),
                .chunk_bytes = contents.base.chunk_bytes,
                .weights = contents.base.weights});
  return true;
}

void find_orphans(const StoreHome& home, Repair repair, std::vector<StoreFinding>& findings) {
  for (const std::string& directory : home.directories) {
    for (const std::string& name : home.files.list(directory)) {
      if (has(store_file_names(), name)) continue;
      // Only what we ourselves leave behind is ours to remove.
      const bool ours = has(leftover_file_names(), name) || name.starts_with(".sluice-");
      const bool remove = ours && repair == Repair::kYes;
      const std::string path = fmt::format("{}/{}", directory, name);
      if (remove) home.files.remove(path);
      findings.push_back(
          {Kind::kOrphan,
           fmt::format("'{}' belongs to no store{}", path, ours ? "; a crash left it" : "; it is not Sluice's"),
           remove});
    }
  }
}

class Verifier {
 public:
  Verifier(const SliceStore& store, const ProgressSink& progress, std::uint64_t total_bytes)
      : store_(store), progress_(progress), total_bytes_(total_bytes) {
    const std::uint64_t window_bytes = round_up(std::max(8 * kMiB, store.chunk_bytes()), store.chunk_bytes());
    for (PageMemory& window : windows_) window = PageMemory(window_bytes);
  }

  // The damage found in one version.
  std::vector<std::string> verify(const SliceVersion& version) {
    std::vector<std::string> damage;
    std::array<std::optional<Part>, 2> parts;
    std::size_t turn = 0;
    const auto settle = [&](std::optional<Part>& part) {
      if (!part) return;
      try {
        part->ticket.wait();
        store_.verify(version, part->offset, part->bytes);
      } catch (const FormatError& error) {
        damage.emplace_back(error.what());
      } catch (const IoError& error) {
        damage.push_back(fmt::format("slice '{}' cannot be read: {}", version.key(), error.what()));
      }
      done_bytes_ += part->bytes.size();
      progress_.report({.what = "verifying", .done = done_bytes_, .total = total_bytes_});
      part.reset();
    };
    for (std::uint64_t offset = 0; offset < version.stored_bytes(); turn ^= 1) {
      if (progress_.interrupted()) throw Cancelled("the check was interrupted");
      settle(parts[turn]);
      const std::span<std::byte> bytes =
          windows_[turn].bytes().first(std::min(windows_[turn].size_bytes(), version.stored_bytes() - offset));
      parts[turn].emplace(Part{store_.read(version, offset, bytes), offset, bytes});
      offset += bytes.size();
    }
    settle(parts[turn]);
    settle(parts[turn ^ 1]);
    return damage;
  }

  std::uint64_t done_bytes() const { return done_bytes_; }

 private:
  struct Part {
    Ticket ticket;
    std::uint64_t offset;
    std::span<std::byte> bytes;
  };

  const SliceStore& store_;
  const ProgressSink& progress_;
  std::array<PageMemory, 2> windows_;
  std::uint64_t total_bytes_;
  std::uint64_t done_bytes_ = 0;
};

}  // namespace

bool StoreReport::whole() const {
  return std::all_of(findings.begin(), findings.end(),
                     [](const StoreFinding& finding) { return finding.kind != Kind::kDamage || finding.repaired; });
}

StoreReport check_store(const StoreHome& home, Repair repair, const ProgressSink& progress) {
  StoreReport report;
  const std::map<std::size_t, std::string> damaged = damaged_headers(home);
  for (const auto& [directory_idx, text] : damaged) {
    const bool repaired = repair == Repair::kYes && damaged.size() == 1 && repair_header(home, directory_idx);
    report.findings.push_back({Kind::kDamage, text, repaired});
    if (!repaired) return report;
  }

  std::unique_ptr<SliceStore> store = SliceStore::open(home, StoreAccess::kLookOnly);
  const JournalContents contents = read_journal(journal_place(home, store->directories()));
  for (const std::string& text : contents.damage) report.findings.push_back({Kind::kDamage, text, false});
  for (const std::string& text : contents.unfinished) report.findings.push_back({Kind::kUnfinished, text, false});
  report.sequence = store->sequence();
  report.note = store->last_note();
  report.num_slices = store->committed().size();
  report.num_snapshots = store->snapshots().size();
  report.kept_bytes = store->taken_bytes();
  report.file_bytes = store->file_bytes();
  report.drive_bytes_written = store->drive_bytes_written();

  {
    Verifier verifier(*store, progress, report.kept_bytes);
    for (const SliceRef& version : store->kept()) {
      for (std::string& text : verifier.verify(*version)) {
        report.findings.push_back({Kind::kDamage, std::move(text), false});
      }
    }
    report.verified_bytes = verifier.done_bytes();
  }
  store.reset();

  const bool mend = repair == Repair::kYes && !(contents.damage.empty() && contents.unfinished.empty());
  if (mend) {
    SliceStore::open(home, StoreAccess::kReadWrite);  // writes both copies of the journal anew
    const std::size_t num_mended = contents.damage.size() + contents.unfinished.size();
    for (std::size_t i = 0; i < num_mended; ++i) report.findings[damaged.size() + i].repaired = true;
  }
  find_orphans(home, repair, report.findings);
  return report;
}

}  // namespace sluice
