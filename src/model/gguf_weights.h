// SPDX-License-Identifier: Apache-2.0
// A checkpoint's weights on their way into a GGUF file, piece by piece: of a tensor, rows of some MiB are in memory at
// a time. The bytes do not depend on the number of threads.
#pragma once

#include "base/progress.h"
#include "base/worker_team.h"
#include "format/checkpoint.h"
#include "format/gguf_writer.h"
#include "model/description.h"
#include "model/gguf_layout.h"

namespace sluice {

// Holds every tensor's name, shape and type against the layout before anything is written. Throws FormatError.
void require_gguf_sources(const Checkpoint& checkpoint, const GgufLayout& layout);

// `writer` was made for the layout's tensors. Throws InvalidInput where a value does not fit its encoding, Cancelled
// where the progress sink was interrupted.
void write_gguf_weights(const Checkpoint& checkpoint, const GgufLayout& layout, const Architecture& arch,
                        GgufWriter& writer, WorkerTeam& team, const ProgressSink& progress);

}  // namespace sluice
