// SPDX-License-Identifier: Apache-2.0
// Record of a run (run.json in its folder): id, state directories, fingerprints of the input files, and the manifest of
// the run's files in the folder. Values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr std::string_view kRunRecordName = "run.json";

// An input file of a run, as it was when the run began.
struct RunInput {
  std::string role;  // the configuration's key that names it: base_model, datasets, test_datasets, chat_template
  std::string path;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::string hash;              // over all bytes, or over sampled blocks if is_sampled
  bool is_sampled = false;

  bool operator==(const RunInput&) const = default;
};

struct RunRecord {
  std::string id;  // 16 hexadecimal digits; also in the state's owner.json
  std::int64_t started_unix_s = 0;
  bool skip_bad = false;            // --skip-bad; kept when the run is resumed
  bool has_begun = false;           // false: the run ended before its weights were imported
  std::vector<std::string> stores;  // state directories, one per drive; relative to the run's folder
  std::vector<RunInput> inputs;
  std::set<std::string> files;  // paths in the folder; unlisted files are not the run's

  bool operator==(const RunRecord&) const = default;
};

std::string new_run_id();
std::string run_record_json(const RunRecord& record);
// `where` names the text in failures. Throws FormatError.
RunRecord parse_run_record(std::string_view text, const std::string& where);

}  // namespace sluice
