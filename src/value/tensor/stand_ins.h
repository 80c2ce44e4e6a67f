/// Calls of PyTorch's functions on stand-ins for the arguments, to learn what it passes to a `__torch_function__`
/// (python/stator/torch_functions.py).
#pragma once

#include <utility>
#include <vector>

#include "base/ref.h"
#include "value/value.h"

namespace stator {

/// Whether it is a tensor of a subclass, or an object that is no tensor but has a `__torch_function__`.
bool is_overriding(const Value* value);
/// Whether a class has a `__torch_function__`.
bool defines_torch_function(PyTypeObject* type);

/// The stand-ins of one call. Maps the objects that PyTorch passes on back to values.
class StandIns {
  public:
    explicit StandIns(Tracer& tracer) : tracer_(tracer) {}

    PyObject* object_of(Value* value);
    Value* value_of(PyObject* object);

    /// The arguments of a call as stand-ins: a tuple, and a dict.
    struct Call {
        Ref<> positional;
        Ref<> keywords;
    };
    Call call_with(const Arguments& arguments);
    /// What PyTorch passed on: `function`, `types`, `args` and, if there are any, `kwargs`.
    std::vector<Value*> passed(Borrowed<> handed, Value* types);

  private:
    Ref<> make(Value* value);

    Tracer& tracer_;
    std::vector<std::pair<Ref<>, Value*>> pairs_;
};

}  // namespace stator
