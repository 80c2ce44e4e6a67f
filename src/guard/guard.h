/// A guard is one assumption of a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "source/expression.h"
#include "source/source.h"
#include "torch/tensor.h"

namespace stator {

enum class GuardKind : std::uint8_t {
    Type,        // the object's class is exactly `expected`
    Identity,    // the object is `expected`
    Constant,    // same class and equal value as `expected`, a constant
    Function,    // a Python function with this code and these globals (`expected`: the function seen)
    Length,      // a tuple, list, deque, dict or set of `number` items
    Present,     // the source exists: the key of a DictItem is there, a cell is not empty
    HasNoKey,    // a dict without `expected`
    Keys,        // a dict with exactly the keys of the tuple `expected`, in that order (`number`: see kVeryObjects)
    Elements,    // a set with the elements of the frozenset `expected`, iterated in the order seen (likewise)
    Absent,      // the source does not exist: an empty cell or slot, a missing class attribute
    Tensor,      // the metadata of the tensor `expected`
    Autograd,    // autograd's state of a tensor is that of `expected`
    Offset,      // a tensor with the storage offset of `expected`
    Subclass,    // the class is (`number` 1) or is not a subclass of `expected`, an abstract base class
    Same,        // the same object as that of `other`
    Different,   // another object than that of `other`
    Expression,  // `expression` is true; `source` is one of its sources
};

/// In `number` of a guard on keys or elements: they are compared by identity.
inline constexpr std::int64_t kVeryObjects = 1;

struct Guard {
    GuardKind kind;
    Source* source;
    PyObject* expected = nullptr;  // kept alive by the trace's arena, then by the program (of a tensor only its class)
    std::int64_t number = 0;
    Source* other = nullptr;
    const Expression* expression = nullptr;
};

/// As a guard keeps it in `number`, and how that reads.
std::int64_t pack(torch_room::AutogradState state);
std::string print_autograd_state(std::int64_t packed);

/// `L['x'] is a tuple of 3 items`.
std::string print(const Guard& guard);

}  // namespace stator
