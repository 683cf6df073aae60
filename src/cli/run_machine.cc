// SPDX-License-Identifier: Apache-2.0
#include "cli/run_machine.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "cli/machine_cache.h"
#include "cli/spendable_memory.h"
#include "plan/kernel_scratch.h"

namespace sluice {
namespace {

std::uint64_t held_bytes(const std::string& directory) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::uintmax_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

}  // namespace

Machine machine_for(const TrainConfig& config, const Architecture& arch, const DeviceChoice& device,
                    const std::vector<std::string>& store_directories, Remeasure remeasure,
                    const ProgressSink& progress) {
  MachineBenchOptions options{.directories = drive_directories(config),
                              .num_threads = num_threads_of(config),
                              .arch = &arch,
                              .batch_tokens = static_cast<std::int64_t>(config.sequence_len) *
                                              static_cast<std::int64_t>(config.micro_batch_size),
                              .device = device,
                              .sequence_len = static_cast<std::int64_t>(config.sequence_len),
                              .progress = progress};
  if (device.cuda) {
    options.scratch_bytes =
        kernel_scratch_bytes(arch, {options.sequence_len, options.batch_tokens, device.card.has_cudnn_gradients},
                             config.gpu_memory_bytes.value_or(device.card.memory_bytes / 100 * 95));
  }
  Machine machine = this_machine(options, machine_cache_path(), remeasure);
  for (std::size_t idx = 0; idx < store_directories.size(); ++idx) {
    machine.drives[idx].size_bytes += held_bytes(store_directories[idx]);
  }
  return machine;
}

TierBudgets budgets_here(const Machine& machine, std::size_t num_threads, std::uint64_t beside_bytes) {
  const std::uint64_t bytes = spendable_memory(num_threads).bytes;
  return default_budgets(machine, bytes - std::min(bytes / 2, beside_bytes));
}

void require_memory_here(const Plan& plan, std::size_t num_threads) {
  const SpendableMemory memory = spendable_memory(num_threads);
  const ArenaBytes arena = memory.of_addresses ? ArenaBytes::kReserved : ArenaBytes::kTouched;
  require_spendable(memory, peak_host_bytes(plan, arena), "the run",
                    "lower gpu_memory and host_memory, or raise the limit");
}

}  // namespace sluice
