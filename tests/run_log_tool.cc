// SPDX-License-Identifier: Apache-2.0
// For tests/run_files_test.py: the log of a run of 40 steps that is killed after step 25 and resumed from its
// checkpoint at 20. Losses follow from the step, times from clocks that the tool moves. Usage: run_log_tool OUTPUT_DIR
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "train/run_log.h"

namespace sluice {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kSteps = 40;

// `generation` tells the two processes apart in what they log.
void train(RunLog& log, ManualClock& clock, std::uint64_t last_step, int generation) {
  for (std::uint64_t step = log.state().global_step + 1; step <= last_step; ++step) {
    clock.advance_ns(2 * kSecond);
    const double at = static_cast<double>(step);
    log.reach({.step = step, .epoch = at / 20.0, .total_tokens = step * 1000});
    log.log(TrainingEntry{.loss = 4.0 / std::sqrt(at), .grad_norm = at + generation, .learning_rate = 1e-4 * at});
    if (step % 10 == 0) log.log(EvaluationEntry{.loss = 5.0 / std::sqrt(at)});
  }
}

void write_run(const std::string& folder) {
  PosixFileSystem files;
  ThreadsEngine engine(1);
  ManualClock clock;
  ManualClock wall_clock;
  wall_clock.advance_ns(1'700'000'000 * kSecond);
  const RunLogPlace place{files, engine, clock, wall_clock, folder, "demo"};
  const std::string checkpoint = folder + "/checkpoint-20";
  {
    RunLog log(place, {.max_steps = kSteps, .num_train_epochs = 2, .logging_steps = 1, .save_steps = 20});
    train(log, clock, 20, 0);
    log.set_best(1.118, checkpoint);
    std::filesystem::create_directories(checkpoint);
    log.save_state(checkpoint);
    train(log, clock, 25, 0);
  }
  RunLog log = RunLog::resume(place, read_trainer_state(files, engine, checkpoint));
  train(log, clock, kSteps, 100);
  log.save();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    sluice::write_run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_log_tool: %s\n", error.what());
    return 1;
  }
}
