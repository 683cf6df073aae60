// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "tier/slice_store.h"

namespace sluice {

struct SliceWriter::Draft {
  explicit Draft(ExtentGrant given) : grant(std::move(given)) {}

  SliceRecord record;
  ExtentGrant grant;
  std::uint64_t stored_bytes = 0;
  std::mutex mutex;
  std::vector<bool> chunk_written;
  std::vector<std::shared_ptr<TicketState>> tickets;  // shared with the tickets handed out, to know how they ended
};

SliceWriter::SliceWriter(SliceStore& store, std::unique_ptr<Draft> draft) : store_(&store), draft_(std::move(draft)) {}

SliceWriter::SliceWriter(SliceWriter&&) noexcept = default;

SliceWriter::~SliceWriter() {
  if (!draft_) return;
  // The extents are free in a moment: nothing may still be on its way to them.
  for (const auto& ticket : draft_->tickets) ticket->wait_settled();
  draft_.reset();
  store_->close_writer();
}

std::uint64_t SliceWriter::stored_bytes() const { return draft_->stored_bytes; }

Ticket SliceWriter::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const StripeSet& stripes = *store_->stripes_;
  const std::uint64_t chunk_bytes = stripes.chunk_bytes();
  const std::uint64_t end = offset + bytes.size();
  CHECK(is_aligned(offset, chunk_bytes) && end <= draft_->stored_bytes &&
            (is_aligned(end, chunk_bytes) || end == draft_->stored_bytes),
        "a slice is written by whole chunks");
  for (std::uint64_t at = offset; at < end; at += chunk_bytes) {
    const std::uint64_t size = std::min(chunk_bytes, end - at);
    const std::uint64_t chunk_idx = at / chunk_bytes;
    const std::uint64_t sum = xxh3(bytes.subspan(at - offset, size));
    store_->wear_->add(stripes.pattern().place(chunk_idx).drive_idx, size);
    const std::scoped_lock lock(draft_->mutex);
    draft_->record.chunk_sums[chunk_idx] = sum;
    draft_->chunk_written[chunk_idx] = true;
  }
  Ticket ticket = stripes.write(draft_->grant.extents(), offset, bytes);
  const std::scoped_lock lock(draft_->mutex);
  std::erase_if(draft_->tickets, [](const auto& state) { return state->settled() && !state->failure(); });
  if (ticket.state()) draft_->tickets.push_back(ticket.state());
  return ticket;
}

void SliceWriter::finish() {
  for (const auto& ticket : draft_->tickets) {
    CHECK(ticket->settled(), "a slice is finished after its writes have settled");
    if (const std::exception_ptr failure = ticket->failure()) std::rethrow_exception(failure);
  }
  CHECK(std::all_of(draft_->chunk_written.begin(), draft_->chunk_written.end(), [](bool written) { return written; }),
        "a finished slice is written whole");
  draft_->record.extents = draft_->grant.extents();
  store_->stage(std::make_shared<const SliceVersion>(std::move(draft_->record), std::move(draft_->grant)));
  draft_.reset();
  store_->close_writer();
}

SliceWriter SliceStore::begin(const std::string& key, std::uint64_t size_bytes) {
  CHECK(!key.empty(), "a slice has a key");
  CHECK(size_bytes > 0, "a slice has bytes");
  auto draft = std::make_unique<SliceWriter::Draft>(space_->take(stripes_->shares(size_bytes)));
  draft->record.key = key;
  draft->record.size_bytes = size_bytes;
  draft->stored_bytes = round_up(size_bytes, kBlockBytes);
  const std::uint64_t num_chunks = div_ceil(size_bytes, chunk_bytes());
  draft->record.chunk_sums.resize(num_chunks);
  draft->chunk_written.resize(num_chunks);
  const std::scoped_lock lock(maps_mutex_);
  ++num_writers_;
  return {*this, std::move(draft)};
}

void SliceStore::close_writer() {
  const std::scoped_lock lock(maps_mutex_);
  --num_writers_;
}

}  // namespace sluice
