// SPDX-License-Identifier: Apache-2.0
#include "bench/io_bench.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "bench/fio.h"
#include "bench/statistics.h"
#include "io/posix/posix_file.h"
#include "io/stripe_set.h"

namespace sluice {
namespace {

constexpr std::uint64_t kWindowBytes = 4 * kMiB;
constexpr std::size_t kNumWindows = 4;  // a drive: 16 MiB in flight, as fio has

// Files that go when this does, whatever else fails.
struct ScratchFiles {
  std::vector<std::string> paths;

  ScratchFiles() = default;
  ~ScratchFiles() {
    for (const std::string& path : paths) ::unlink(path.c_str());
  }
  ScratchFiles(const ScratchFiles&) = delete;
  ScratchFiles& operator=(const ScratchFiles&) = delete;
};

class Course {
 public:
  Course(const IoBenchOptions& options, const EngineChoice& choice)
      : caching_(choice.caching),
        file_bytes_(round_up(div_ceil(options.size_bytes, options.directories.size()), kWindowBytes)) {
    if (options.size_bytes == 0) throw InvalidInput("nothing is to be moved: give --size something");
    for (const std::string& directory : options.directories) {
      files_.require_directory(directory, OpenMode::kReadWrite);
      if (const std::uint64_t free = files_.free_bytes(directory); free < file_bytes_) {
        throw InvalidInput(fmt::format("'{}' has {} free and the benchmark needs {} there: free space or lower --size",
                                       directory, format_bytes(free), format_bytes(file_bytes_)));
      }
    }
    std::vector<File*> borrowed;
    for (std::uint32_t i = 0; i < options.directories.size(); ++i) {
      const std::string path = fmt::format("{}/.sluice-bench-{}-{}", options.directories[i], ::getpid(), i);
      scratch_.paths.push_back(path);
      opened_.push_back(files_.open(path, OpenMode::kCreate, choice.caching));
      opened_.back()->preallocate(file_bytes_);
      borrowed.push_back(opened_.back().get());
      extents_.push_back({i, 0, file_bytes_});
    }
    stripes_ = std::make_unique<StripeSet>(*choice.engine, borrowed,
                                           StripePattern(std::vector<std::uint32_t>(borrowed.size(), 1)), kMiB);
    memory_ = PageMemory(kWindowBytes * kNumWindows * borrowed.size());
    Random(random_identity()).fill(memory_.bytes());
    registration_ = choice.engine->register_memory(memory_.bytes());
  }

  std::uint64_t size_bytes() const { return file_bytes_ * scratch_.paths.size(); }

  // One sweep over everything, kNumWindows windows a drive in flight.
  double sweep_gb_per_s(IoOp op, const ProgressSink& progress) {
    const Stopwatch stopwatch(clock_);
    std::vector<Ticket> tickets(kNumWindows * scratch_.paths.size());
    for (std::uint64_t offset = 0; offset < size_bytes(); offset += kWindowBytes) {
      if (progress.interrupted()) throw Cancelled("the benchmark was interrupted; its files were removed");
      const std::size_t window_idx = offset / kWindowBytes % tickets.size();
      tickets[window_idx].wait();
      const std::span<std::byte> window = memory_.bytes().subspan(window_idx * kWindowBytes, kWindowBytes);
      tickets[window_idx] =
          op == IoOp::kRead ? stripes_->read(extents_, offset, window) : stripes_->write(extents_, offset, window);
    }
    for (Ticket& ticket : tickets) ticket.wait();
    if (op == IoOp::kWrite) stripes_->sync().wait();
    return gb_per_s(size_bytes(), stopwatch.seconds());
  }

  double fio_gb_per_s(IoOp op, std::string_view engine, const ProgressSink& progress) const {
    try {
      return run_fio({.paths = scratch_.paths,
                      .file_bytes = file_bytes_,
                      .op = op,
                      .ioengine = engine == "io_uring" ? "io_uring" : "psync",
                      .caching = caching_});
    } catch (const IoError&) {
      // Ctrl-C reaches fio too, which then fails.
      if (progress.interrupted()) throw Cancelled("the benchmark was interrupted; its files were removed");
      throw;
    }
  }

 private:
  PosixFileSystem files_;
  SteadyClock clock_;
  Caching caching_;
  std::uint64_t file_bytes_;
  ScratchFiles scratch_;
  std::vector<std::unique_ptr<File>> opened_;
  std::vector<Extent> extents_;
  std::unique_ptr<StripeSet> stripes_;
  PageMemory memory_;
  Registration registration_;
};

}  // namespace

IoBenchResult run_io_bench(const IoBenchOptions& options, const ProgressSink& progress) {
  const EngineChoice choice = choose_engine(options.directories, options.engine);
  Course course(options, choice);
  const bool with_fio = options.against == IoBenchOptions::Against::kFio;
  const std::uint64_t total =
      course.size_bytes() * static_cast<std::uint64_t>(1 + 2 * options.num_rounds * (with_fio ? 2 : 1));
  std::uint64_t done = 0;
  const auto advance = [&](std::string_view what) {
    done += course.size_bytes();
    progress.report({.what = what, .done = done, .total = total});
  };
  progress.report({.what = "bench io", .done = 0, .total = total});
  course.sweep_gb_per_s(IoOp::kWrite, progress);  // the files are laid out; not counted
  advance("bench io");

  IoBenchResult result;
  result.engine = choice.engine->name();
  for (const IoOp op : {IoOp::kRead, IoOp::kWrite}) {
    std::vector<double> ours;
    std::vector<double> fios;
    for (int round = 0; round < options.num_rounds; ++round) {
      // Whoever goes first may find the drive rested: take turns.
      for (int turn = 0; turn < 2; ++turn) {
        if ((turn == 0) == (round % 2 == 0)) {
          ours.push_back(course.sweep_gb_per_s(op, progress));
          advance("bench io");
        } else if (with_fio) {
          fios.push_back(course.fio_gb_per_s(op, choice.engine->name(), progress));
          advance("bench io");
        }
      }
    }
    IoBenchResult::Direction& direction = op == IoOp::kRead ? result.read : result.write;
    direction.gb_per_s = median(ours);
    if (with_fio) direction.fio_gb_per_s = median(fios);
  }
  return result;
}

}  // namespace sluice
