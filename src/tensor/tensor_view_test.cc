// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor_view.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(DType, EveryNameParsesBackToItsType) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI32, DType::kI64, DType::kU8, DType::kI8}) {
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("F64"), std::nullopt);
}

TEST(Shape, CountsElementsAndPrintsItself) {
  EXPECT_EQ(Shape({2, 3, 4}).num_elements(), 24);
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape({0, 7}).num_elements(), 0);
  EXPECT_EQ(Shape({2, 3}).text(), "(2, 3)");
  EXPECT_NE(Shape({2}), Shape({2, 1}));
}

TEST(ShapeDeathTest, RefusesElementsThatCannotBeCounted) {
  EXPECT_DEATH(Shape({std::int64_t{1} << 40, std::int64_t{1} << 40}).num_elements(), "counted");
}

TEST(TensorView, RowsLookAtTheSameMemory) {
  std::array<float, 6> values{0, 1, 2, 3, 4, 5};
  const TensorView view(std::as_writable_bytes(std::span(values)), DType::kF32, {3, 2});
  const TensorView last = view.rows(2, 1);
  EXPECT_EQ(last.shape(), Shape({1, 2}));
  last.as<float>()[1] = 9;
  EXPECT_EQ(values[5], 9);
}

TEST(TensorViewDeathTest, RefusesMemoryThatIsTooSmall) {
  std::vector<std::byte> memory(7);
  EXPECT_DEATH(TensorView(memory, DType::kF32, {2}), "holds the tensor");
}

}  // namespace
}  // namespace sluice
