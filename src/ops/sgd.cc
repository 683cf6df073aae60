// SPDX-License-Identifier: Apache-2.0
#include "ops/sgd.h"

#include "ops/cpu/sgd.h"
#include "ops/dispatch.h"
#include "ops/host_optimizer.h"
#include "ops/master_check.h"

namespace sluice {
namespace {

void check(const Sgd& args) {
  check_master(args.weight, args.trailing, args.grad);
  if (args.settings.momentum == 0) {
    CHECK(args.velocity.bytes().empty(), "without momentum there is no velocity");
  } else {
    CHECK(args.velocity.dtype() == DType::kF32 && is_as_large(args.velocity, args.weight),
          "a velocity for each weight");
  }
}

}  // namespace

void sgd(Stream& stream, const Sgd& args) {
  check(args);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.sgd(stream, args); }, [args](WorkerTeam& team) { cpu::sgd(team, args); });
}

void sgd(WorkerTeam& team, const Sgd& args) {
  check(args);
  cpu::sgd(team, args);
}

}  // namespace sluice
