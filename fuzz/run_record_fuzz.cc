// SPDX-License-Identifier: Apache-2.0
// run.json of a run's folder. Whatever it holds is refused, or is a record that is written and reads back equal and
// whose files lie inside the folder: a run deletes what its record lists.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "train/run_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::RunRecord record;
  try {
    record = sluice::parse_run_record(text, "run.json");
  } catch (const sluice::FormatError&) {
    return 0;
  }
  for (const std::string& name : record.files) {
    const std::filesystem::path whole = (std::filesystem::path("/run") / name).lexically_normal();
    CHECK(whole.string().starts_with("/run/"), "a record lists a file outside its folder");
  }
  const sluice::RunRecord again = sluice::parse_run_record(sluice::run_record_json(record), "again");
  CHECK(again == record, "a record reads back as another");
  return 0;
}
