// SPDX-License-Identifier: Apache-2.0
// run.json of a run's folder: the run's id, the directories of its state, fingerprints of the files it was made from,
// and the manifest, which lists every file of the run in its folder. Values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr std::string_view kRunRecordName = "run.json";

// A file that a run reads, as it was when the run began.
struct RunInput {
  std::string role;  // the configuration's key that names it: base_model, datasets, test_datasets, chat_template
  std::string path;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::string hash;              // of all bytes, or of sampled blocks where is_sampled
  bool is_sampled = false;

  bool operator==(const RunInput&) const = default;
};

struct RunRecord {
  std::string id;  // 16 hexadecimal digits; the state of the run carries it too
  std::int64_t started_unix_s = 0;
  bool skip_bad = false;            // a run that leaves bad rows out does so when it is resumed
  bool has_begun = false;           // false: it ended before its weights were in place
  std::vector<std::string> stores;  // directories of the state, one a drive; a relative path is inside the folder
  std::vector<RunInput> inputs;
  std::set<std::string> files;  // paths in the folder; what is not listed here is somebody else's

  bool operator==(const RunRecord&) const = default;
};

std::string new_run_id();
std::string run_record_json(const RunRecord& record);
// `where` names the text in failures. Throws FormatError.
RunRecord parse_run_record(std::string_view text, const std::string& where);

}  // namespace sluice
