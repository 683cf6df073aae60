// SPDX-License-Identifier: Apache-2.0
// Where a run reports to: the screen on standard error, with `--json` events on standard output, and train.log in the
// run's folder. Each may be lost (a full drive, a reader that is gone); then the others say so, once, and the run goes
// on. For one thread; the screen and the log take messages from others by themselves.
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

  // A sentence for the user: on the screen where the output is text, and in the log.
  void message(std::string_view text);
  // The same, whatever the output is.
  void notice(std::string_view text) { screen_.print(text); }
  // Only where the output is JSON.
  void event(const nlohmann::ordered_json& event);
  // In the log alone.
  void log(std::string_view line);

  // Every message from here on, and those of before.
  void open_log(const std::string& path, TrainLog::Start start);
  // Says which of the outputs has been lost since this was last asked.
  void tell_of_losses();

 private:
  TrainOutput output_;
  TerminalScreen& screen_;
  EventStream stdout_;
  std::optional<TrainLog> log_;
  std::vector<std::string> early_;  // lines for the log before there is one
  bool has_told_of_screen_ = false;
};

}  // namespace sluice
