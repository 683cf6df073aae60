// SPDX-License-Identifier: Apache-2.0
#include "data/sequence_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"

namespace sluice {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kDocumentsPerPoll = 65'536;

std::vector<std::uint32_t> shuffled(std::size_t count, Random& random) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// Sequences by the room they have left, the latest first. Asking for a fit takes a logarithm of the number of different
// rooms.
class OpenSequences {
 public:
  explicit OpenSequences(std::size_t sequence_len) : sequence_len_(sequence_len), newest_(sequence_len + 1, kNone) {}

  // The sequence that the document leaves least room in, which may be a new one.
  std::uint32_t place(std::uint32_t length) {
    const auto found = rooms_.lower_bound(length);
    std::uint32_t sequence = 0;
    std::uint32_t room = 0;
    if (found == rooms_.end()) {
      sequence = static_cast<std::uint32_t>(older_.size());
      room = static_cast<std::uint32_t>(sequence_len_);
      older_.push_back(kNone);
    } else {
      room = *found;
      sequence = newest_[room];
      newest_[room] = older_[sequence];
      if (newest_[room] == kNone) rooms_.erase(found);
    }
    room -= length;
    if (room > 0) {
      if (newest_[room] == kNone) rooms_.insert(room);
      older_[sequence] = std::exchange(newest_[room], sequence);
    }
    return sequence;
  }

  std::size_t count() const { return older_.size(); }

 private:
  std::size_t sequence_len_;
  std::set<std::uint32_t> rooms_;      // those that some sequence has left
  std::vector<std::uint32_t> newest_;  // by room: a sequence with that much left
  std::vector<std::uint32_t> older_;   // by sequence: the next with the same room
};

}  // namespace

double SequencePlan::fill(std::size_t sequence_len) const {
  const double room = static_cast<double>(num_sequences()) * static_cast<double>(sequence_len);
  return room > 0 ? static_cast<double>(num_tokens) / room : 0.0;
}

SequencePlan plan_sequences(std::span<const std::uint32_t> lengths, std::size_t sequence_len, Packing packing,
                            std::uint64_t seed, const std::function<bool()>& interrupted) {
  const auto stop_if_asked = [&] {
    if (interrupted && interrupted()) throw Cancelled("stopped while rows were packed; nothing was kept");
  };
  stop_if_asked();
  CHECK(lengths.size() < kNone && sequence_len < kNone, "places have 32 bits");
  Random random(seed);
  SequencePlan plan;
  std::vector<std::uint32_t> order = shuffled(lengths.size(), random);
  for (const std::uint32_t length : lengths) {
    CHECK(length > 0 && length <= sequence_len, "a document fits into a sequence");
    plan.num_tokens += length;
  }
  if (packing == Packing::kOneDocument) {
    plan.documents = std::move(order);
    plan.begins.resize(lengths.size() + 1);
    std::iota(plan.begins.begin(), plan.begins.end(), 0U);
    return plan;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t left, std::uint32_t right) { return lengths[left] > lengths[right]; });
  OpenSequences open(sequence_len);
  std::vector<std::uint32_t> sequence_of(lengths.size());  // by place in the order
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i % kDocumentsPerPoll == 0) stop_if_asked();
    sequence_of[i] = open.place(lengths[order[i]]);
  }

  // Long documents were placed first; without this they would come first, too.
  const std::vector<std::uint32_t> position = shuffled(open.count(), random);
  plan.begins.assign(open.count() + 1, 0);
  for (const std::uint32_t sequence : sequence_of) ++plan.begins[position[sequence] + 1];
  std::partial_sum(plan.begins.begin(), plan.begins.end(), plan.begins.begin());
  std::vector<std::uint32_t> next(plan.begins.begin(), plan.begins.end() - 1);
  plan.documents.resize(lengths.size());
  for (std::size_t i = 0; i < order.size(); ++i) plan.documents[next[position[sequence_of[i]]]++] = order[i];
  return plan;
}

}  // namespace sluice
