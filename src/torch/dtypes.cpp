#include "torch/dtypes.h"

#include <c10/core/ScalarType.h>

namespace stator::torch_room {

static_assert(static_cast<int>(c10::ScalarType::Byte) == 0 && static_cast<int>(c10::ScalarType::Long) == 4 &&
              static_cast<int>(c10::ScalarType::Half) == 5 && static_cast<int>(c10::ScalarType::Double) == 7 &&
              static_cast<int>(c10::ScalarType::ComplexDouble) == 10 && static_cast<int>(c10::ScalarType::Bool) == 11 &&
              static_cast<int>(c10::ScalarType::BFloat16) == 15);

Dtype promote(Dtype left, Dtype right) {
    return static_cast<Dtype>(
        c10::promoteTypes(static_cast<c10::ScalarType>(left), static_cast<c10::ScalarType>(right)));
}

}  // namespace stator::torch_room
