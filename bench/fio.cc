// SPDX-License-Identifier: Apache-2.0
#include "bench/fio.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/posix/posix_file.h"

namespace sluice {
namespace {

// 1 MiB requests, 16 in flight on each file, as drives' data sheets have it; with fio's own fast paths switched on.
std::vector<std::string> command(const FioJob& job) {
  std::vector<std::string> words{"fio", "--output-format=json", "--group_reporting=1", "--thread=1", "--bs=1M"};
  words.push_back(job.caching == Caching::kDirect ? "--direct=1" : "--direct=0");
  words.push_back(job.op == IoOp::kRead ? "--rw=read" : "--rw=write");
  words.push_back("--ioengine=" + job.ioengine);
  words.push_back(fmt::format("--size={}", job.file_bytes));
  if (job.ioengine == "io_uring") {
    words.insert(words.end(), {"--iodepth=16", "--fixedbufs=1", "--registerfiles=1"});
  } else {
    words.insert(words.end(),
                 {"--numjobs=16", fmt::format("--io_size={}", job.file_bytes / 16), "--offset_increment=6%"});
  }
  if (job.op == IoOp::kWrite) words.push_back("--end_fsync=1");
  for (std::size_t i = 0; i < job.paths.size(); ++i) {
    words.push_back(fmt::format("--name=file{}", i));
    words.push_back("--filename=" + job.paths[i]);
  }
  return words;
}

// What the command prints; throws where it cannot be run or does not end well.
std::string run(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError(errno, "cannot make a pipe: " + errno_text(errno));
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int status = ::posix_spawnp(&child, "fio", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) {
    throw InvalidInput(fmt::format("fio cannot be run ({}): install it, or leave out --against", errno_text(status)));
  }
  to = UniqueFd();
  std::string output;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t count = ::read(from.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    output.append(part.data(), static_cast<std::size_t>(count));
  }
  int exit_status = 0;
  while (::waitpid(child, &exit_status, 0) < 0 && errno == EINTR) {
  }
  if (exit_status != 0) throw IoError(0, fmt::format("fio failed with status {}: {}", exit_status, output));
  return output;
}

}  // namespace

double run_fio(const FioJob& job) {
  const std::string output = run(command(job));
  try {
    // fio may print notes before the JSON.
    const auto report = nlohmann::json::parse(output.substr(output.find('{')));
    const auto& figures = report.at("jobs").at(0).at(job.op == IoOp::kRead ? "read" : "write");
    return figures.at("bw_bytes").get<double>() / 1e9;
  } catch (const std::exception& error) {
    throw FormatError(fmt::format("fio's report cannot be read: {}", error.what()));
  }
}

}  // namespace sluice
