// SPDX-License-Identifier: Apache-2.0
// The command line: finds the verb, runs it, and turns what it throws into one sentence and an exit code
// (0 done, 1 failed, 2 the user's mistake, 130 interrupted).
#pragma once

namespace sluice {

int run_command_line(int argc, char** argv);

}  // namespace sluice
