// SPDX-License-Identifier: Apache-2.0
// `key=value` from the command line. Those that name a whole key stay apart, because they outrank every spelling of it
// in the file; those that reach into one (`datasets.0.path=x`) are put into the file's tree. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "train/yaml_tree.h"

namespace sluice {

// Changes `tree` by the overrides that reach into a key, returns the others as a map. Values have line 0. Throws
// InvalidInput that names the command line.
YamlValue apply_overrides(YamlValue& tree, const std::vector<std::string>& overrides);

}  // namespace sluice
