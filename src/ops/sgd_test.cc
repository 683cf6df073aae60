// SPDX-License-Identifier: Apache-2.0
#include "ops/sgd.h"

#include "ops/host_optimizer.h"
#include "ops/test_masters.h"
#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

TEST(Sgd, ThreeStepsAreTheDefinitionWithAndWithoutMomentum) {
  constexpr std::int64_t kSize = 40007;
  on_every_target([] {
    for (const double momentum : {0.0, 0.9}) {
      const SgdSettings settings = {
          .learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01, .grad_scale = 0.5};
      const TestTensor weight = random_tensor(DType::kF32, {kSize}, 1);
      const Halves halves = halves_of(floats_of(weight));
      const TestTensor velocity(DType::kF32, {kSize});
      const TestTensor split_velocity(DType::kF32, {kSize});
      Doubles exact = weight.doubles();
      Doubles exact_velocity(exact.size());
      WorkerTeam team(2);
      for (std::uint64_t step = 1; step <= 3; ++step) {
        const TestTensor grad = random_tensor(step == 2 ? DType::kBF16 : DType::kF32, {kSize}, 10 + step);
        const Doubles gradients = grad.doubles();
        for (std::size_t i = 0; i < exact.size(); ++i) {
          exact_velocity[i] = momentum * exact_velocity[i] + gradients[i] * 0.5 + 0.01 * exact[i];
          exact[i] -= 0.1 * exact_velocity[i];
        }
        const TensorView none;
        run_on_cpu(2, [&](Stream& stream) {
          sgd(stream, {.settings = settings,
                       .weight = weight,
                       .trailing = {},
                       .grad = grad,
                       .velocity = momentum == 0 ? none : velocity.view()});
        });
        sgd(team, {.settings = settings,
                   .weight = halves.weight,
                   .trailing = halves.trailing,
                   .grad = grad,
                   .velocity = momentum == 0 ? none : split_velocity.view()});
      }
      expect_close(weight, exact, 1e-6);
      if (momentum != 0) expect_close(velocity, exact_velocity, 1e-6);
      EXPECT_EQ(masters_of(halves), floats_of(weight));  // to the bit
      EXPECT_EQ(split_velocity.bytes(), velocity.bytes());
    }
  });
}

}  // namespace
}  // namespace sluice
