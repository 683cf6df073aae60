// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/bench_verb.h"
#include "cli/command_words.h"
#include "cli/data_verb.h"
#include "cli/env_verb.h"
#include "cli/eval_verb.h"
#include "cli/export_verb.h"
#include "cli/generate_verb.h"
#include "cli/help_verbs.h"
#include "cli/merge_verb.h"
#include "cli/model_verb.h"
#include "cli/plan_verb.h"
#include "cli/store_verb.h"
#include "cli/template_verb.h"
#include "cli/terminal.h"
#include "cli/tokenize_verb.h"
#include "cli/train_verb.h"
#include "format/json_text.h"

namespace sluice {
namespace {

// Whether standard output is a pipe without a reader, as behind `sluice env | head -1`.
bool has_no_reader() {
  pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/** What stdio still holds is written here, not at exit, where a full disk would go unnoticed. */
int end_output() {
  const bool has_failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !has_failed) return 0;
  if (has_no_reader()) return 0;  // a closed pipe, as of `head`, is no error
  std::fprintf(stderr, "sluice: standard output is not whole: %s\n",
               has_failed ? "an earlier write failed" : std::strerror(errno));
  return 1;
}

// What is told is one line, whatever a file's names and texts brought into it.
int report(const std::exception& error, int exit_code) {
  tell("sluice: " + on_one_line(error.what(), kMaxSentenceBytes));
  return exit_code;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"Sluice fine-tunes and serves language models larger than the GPU.", "sluice"};
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  // read_command_line() handles it; declared here for the help text.
  app.add_flag_callback(
      "--verbose", [] {}, "Say more on standard error; of every verb");
  app.footer(
      "'sluice help VERB' says more of a verb. Exit status: 0 success, 1 failure, 2 a mistake in what was asked,\n"
      "130 interrupted.");
  add_env_verb(app);
  add_data_verb(app);
  add_eval_verb(app);
  add_export_verb(app);
  add_generate_verb(app);
  add_merge_verb(app);
  add_model_verb(app);
  add_plan_verb(app);
  add_bench_verb(app);
  add_store_verb(app);
  add_tokenize_verb(app);
  add_train_verbs(app);
  add_template_verb(app);
  add_help_verbs(app);
  try {
    CommandLine line = read_command_line(app, {argv + 1, argv + std::max(argc, 1)});
    if (line.is_verbose) set_log_level(LogLevel::kDebug);
    if (line.words.empty()) {
      fmt::print(stderr, "{}", app.help());
      return 2;
    }
    std::reverse(line.words.begin(), line.words.end());  // CLI11 takes the words in reverse order
    app.parse(std::move(line.words));
    return end_output();
  } catch (const CLI::ParseError& error) {
    if (const auto* failure = dynamic_cast<const CLI::RuntimeError*>(&error)) return failure->get_exit_code();
    if (error.get_exit_code() != 0) return report(InvalidInput(describe_parse_error(app, error)), 2);
    app.exit(error);  // prints --help and --version
    return end_output();
  } catch (const Cancelled& error) {
    return report(error, 130);
  } catch (const Error& error) {
    return report(error, error.exit_code());
  } catch (const std::bad_alloc&) {
    return report(std::runtime_error("there is not enough memory for this; free some, or give a smaller input"), 1);
  } catch (const std::system_error& error) {
    if (error.code().value() == EPIPE && has_no_reader()) return 0;  // from printing to a closed pipe
    if (error.code() != std::errc::resource_unavailable_try_again) return report(error, 1);
    return report(std::runtime_error("the system starts no more threads: ask for fewer (threads), or raise its limits "
                                     "(ulimit -u for their number, ulimit -v for their memory, a container's pids)"),
                  1);
  } catch (const std::exception& error) {
    return report(error, 1);
  }
}

}  // namespace sluice
