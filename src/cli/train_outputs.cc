// SPDX-License-Identifier: Apache-2.0
#include "cli/train_outputs.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice {

TrainOutputs::TrainOutputs(TrainOutput output, TerminalScreen& screen)
    : output_(output), screen_(screen), stdout_(STDOUT_FILENO) {}

TrainOutputs::~TrainOutputs() {
  tell_of_losses();
  screen_.set_listener(nullptr);
}

void TrainOutputs::message(std::string_view text) {
  if (output_ == TrainOutput::kText) {
    screen_.print(text);
  } else {
    log(text);
  }
}

void TrainOutputs::event(const nlohmann::ordered_json& event) {
  if (output_ != TrainOutput::kJson || stdout_.write(event)) return;
  screen_.print(
      fmt::format("sluice: standard output cannot be written ({}); training goes on without it", stdout_.failure()));
}

void TrainOutputs::log(std::string_view line) {
  if (log_) {
    log_->add(line);
  } else {
    early_.emplace_back(line);
  }
}

void TrainOutputs::open_log(const std::string& path, TrainLog::Start start) {
  log_.emplace(path, start);
  screen_.set_listener([this](const std::string& message) { log_->add(message); });
  for (const std::string& line : std::exchange(early_, {})) log_->add(line);
}

void TrainOutputs::tell_of_losses() {
  if (log_) {
    if (const std::string failure = log_->take_failure(); !failure.empty()) screen_.print("warning: " + failure);
  }
  const std::string failure = screen_.failure();
  if (failure.empty() || std::exchange(has_told_of_screen_, true)) return;
  const std::string text = fmt::format("standard error cannot be written ({}); training goes on without it", failure);
  if (output_ == TrainOutput::kJson) {
    event({{"event", "warning"}, {"text", text}});
    return;
  }
  const std::string line = "sluice: " + text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

}  // namespace sluice
