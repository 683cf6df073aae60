// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <span>

#include "base/units.h"
#include "ops/cpu/adamw.h"
#include "ops/dispatch.h"
#include "ops/host_optimizer.h"
#include "ops/master_check.h"

namespace sluice {
namespace {

void check(const AdamW& args) {
  check_master(args.weight, args.trailing, args.grad);
  const DType moments = args.m.dtype();
  CHECK(moments == args.v.dtype(), "both moments have one precision");
  CHECK(moments == DType::kF32 || moments == DType::kBF16 || moments == DType::kU8, "moments are f32, bf16 or codes");
  CHECK(is_as_large(args.m, args.weight) && is_as_large(args.v, args.weight), "moments for each weight");
  CHECK(args.settings.step >= 1, "the first step is 1");
  CHECK(args.first_element >= 0, "elements count from 0");
  if (moments == DType::kU8) {
    const auto num_blocks = static_cast<std::int64_t>(div_ceil(args.weight.shape().num_elements(), kMomentBlock));
    for (const TensorView& absmax : {args.m_absmax, args.v_absmax}) {
      CHECK(absmax.dtype() == DType::kF32 && absmax.shape().num_elements() == num_blocks, "a scale for each block");
    }
    CHECK(args.first_element % kMomentBlock == 0, "a part of 8-bit moments begins with a block");
  } else {
    CHECK(args.m_absmax.bytes().empty() && args.v_absmax.bytes().empty(), "only 8-bit moments have scales");
  }
}

}  // namespace

void adamw(Stream& stream, const AdamW& args) {
  check(args);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.adamw(stream, args); },
      [args](WorkerTeam& team) { cpu::adamw(team, std::span(&args, 1)); });
}

void adamw(Stream& stream, const std::vector<AdamW>& parts) {
  for (const AdamW& part : parts) check(part);
  dispatch(
      stream,
      [&](Kernels& kernels) {
        for (const AdamW& part : parts) kernels.adamw(stream, part);
      },
      [parts](WorkerTeam& team) { cpu::adamw(team, parts); });
}

void adamw(WorkerTeam& team, const AdamW& args) {
  check(args);
  cpu::adamw(team, std::span(&args, 1));
}

}  // namespace sluice
