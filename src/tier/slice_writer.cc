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
    store_->wear_->add(stripes.pattern().place(draft_->record.first_chunk + chunk_idx).drive_idx, size);
    const std::scoped_lock lock(draft_->mutex);
    draft_->record.chunk_sums[chunk_idx] = sum;
    draft_->chunk_written[chunk_idx] = true;
  }
  LaneTrace* const trace = store_->trace_;
  const std::int64_t begin_ns = trace != nullptr ? trace->now_ns() : 0;
  Ticket ticket = stripes.write(draft_->record.run(), offset, bytes);
  trace_transfer(trace, ticket, {Lane::kHostToNvme, draft_->record.key, offset, bytes.size(), begin_ns});
  const std::scoped_lock lock(draft_->mutex);
  std::erase_if(draft_->tickets, [](const auto& state) { return state->settled() && !state->failure(); });
  if (ticket.state()) draft_->tickets.push_back(ticket.state());
  return ticket;
}

void SliceWriter::finish() { store_->stage(close()); }

SliceRef SliceWriter::finish_apart() { return close(); }

SliceRef SliceWriter::close() {
  for (const auto& ticket : draft_->tickets) {
    CHECK(ticket->settled(), "a slice is finished after its writes have settled");
    if (const std::exception_ptr failure = ticket->failure()) std::rethrow_exception(failure);
  }
  CHECK(std::all_of(draft_->chunk_written.begin(), draft_->chunk_written.end(), [](bool written) { return written; }),
        "a finished slice is written whole");
  auto version = std::make_shared<const SliceVersion>(std::move(draft_->record), std::move(draft_->grant));
  draft_.reset();
  store_->close_writer();
  return version;
}

SliceWriter SliceStore::begin(const std::string& key, std::uint64_t size_bytes) {
  CHECK(!key.empty(), "a slice has a key");
  CHECK(size_bytes > 0, "a slice has bytes");
  const std::uint64_t num_chunks = div_ceil(size_bytes, chunk_bytes());
  std::uint64_t first_chunk = 0;
  {
    // Slices follow one another round the pattern: many small ones fill the drives as evenly as one large one does.
    const std::scoped_lock lock(maps_mutex_);
    first_chunk = next_first_chunk_;
    next_first_chunk_ = (next_first_chunk_ + num_chunks) % stripes_->pattern().round_chunks();
  }
  auto draft = std::make_unique<SliceWriter::Draft>(space_->take(stripes_->shares(size_bytes, first_chunk)));
  draft->record.key = key;
  draft->record.size_bytes = size_bytes;
  draft->record.first_chunk = first_chunk;
  draft->record.extents = draft->grant.extents();
  draft->stored_bytes = round_up(size_bytes, kBlockBytes);
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
