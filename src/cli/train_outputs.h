// SPDX-License-Identifier: Apache-2.0
// Outputs of a training run: the screen on standard error, `--json` events on standard output, and train.log in the
// run's folder. If one of them fails (a full drive, a closed pipe), the others report it once and the run goes on. Not
// thread-safe; the screen and the log accept messages from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/event_stream.h"
#include "cli/terminal_screen.h"
#include "cli/train_log.h"

namespace sluice {

enum class TrainOutput : std::uint8_t { kText, kJson };

class TrainOutputs {
 public:
  TrainOutputs(TrainOutput output, TerminalScreen& screen);
  ~TrainOutputs();
  TrainOutputs(const TrainOutputs&) = delete;
  TrainOutputs& operator=(const TrainOutputs&) = delete;

  TrainOutput output() const { return output_; }
  TerminalScreen& screen() { return screen_; }

  // A message for the user: in the log, and on the screen unless the output is JSON.
  void message(std::string_view text);
  // A message on the screen and in the log, whatever the output format.
  void notice(std::string_view text) { screen_.print(text); }
  // A JSON event; no-op unless the output is JSON.
  void event(const nlohmann::ordered_json& event);
  // A line for the log only.
  void log(std::string_view line);

  // Opens the log; it receives every message, including the earlier ones.
  void open_log(const std::string& path, TrainLog::Start start);
  // Reports write errors of the log and of the screen, each once, on the outputs that still work.
  void tell_of_losses();

 private:
  TrainOutput output_;
  TerminalScreen& screen_;
  EventStream stdout_;
  std::optional<TrainLog> log_;
  std::vector<std::string> early_;  // log lines before open_log()
  bool has_told_of_screen_ = false;
};

}  // namespace sluice
