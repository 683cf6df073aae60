// SPDX-License-Identifier: Apache-2.0
// A store whose journal and header hold whatever the fuzzer says, behind valid checksums: opening and checking it ends
// in a sentence or in a store, never in a crash or in memory that the input has not paid for.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "tier/fake_store.h"
#include "tier/store_check.h"

namespace sluice {
namespace {

void open_with(const std::uint8_t* data, std::size_t size) {
  FakeStore fake;
  std::uint64_t store_id = 0;
  {
    auto store = SliceStore::create(fake.home(), FakeStore::shape(1));
    put(*store, "a", {1, 9000});
    store->commit("1");
    store_id = parse_frame(fake.disk.contents("/drive0/journal.a"), 0)->store_id;
  }
  // The input becomes the payload of a record that is otherwise in order: first byte says which kind.
  const auto* payload = reinterpret_cast<const std::byte*>(data + 1);
  RecordFrame frame{.store_id = store_id, .epoch = 1, .sequence = 0, .payload = {payload, payload + size - 1}};
  std::uint64_t offset = 0;
  if (data[0] % 2 == 0) {
    frame.kind = RecordKind::kBase;
  } else {
    offset = frame_bytes(*parse_frame(fake.disk.contents("/drive0/journal.a"), 0));
    frame.sequence = 1;
  }
  const std::vector<std::byte> bytes = encode(frame);
  for (const char* path : {"/drive0/journal.a", "/drive0/journal.b"}) {
    const auto file = fake.disk.open(path, OpenMode::kReadWrite, Caching::kPageCache);
    file->truncate(offset);
    fake.engine.submit(IoRequest::write(*file, offset, bytes)).wait();
  }
  try {
    check_store(fake.home(), Repair::kYes, {});
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) sluice::open_with(data, size);
  return 0;
}
