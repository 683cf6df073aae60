// SPDX-License-Identifier: Apache-2.0
// Which engine carries the bytes of these directories, decided once at start, with the reason to show.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

enum class EngineWish { kAuto, kUring, kThreads };

struct EngineChoice {
  std::unique_ptr<IoEngine> engine;
  Caching caching = Caching::kDirect;
  std::string reason;
};

// kAuto: io_uring where the kernel allows it and every directory takes O_DIRECT, threads otherwise. Throws where the
// wish cannot be had.
EngineChoice choose_engine(const std::vector<std::string>& directories, EngineWish wish = EngineWish::kAuto);

// "auto", "uring" or "threads"; InvalidInput otherwise.
EngineWish parse_engine_wish(const std::string& text);

}  // namespace sluice
