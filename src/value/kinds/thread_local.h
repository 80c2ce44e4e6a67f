/// Instances of `threading.local` itself. Each thread has its own attributes, which are in no dict that a guard could
/// read: an attribute is a question (source/query.h), an assignment a side effect.
#pragma once

#include "value/kinds/object.h"

namespace stator {

PyTypeObject* thread_local_class();

struct ThreadLocalValue final : ObjectValue {
    explicit ThreadLocalValue(PyObject* real) : ObjectValue(thread_local_class()) { outside = real; }

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Value* own_attribute(Tracer& tracer, Borrowed<> name) override;
    void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    bool delete_own_attribute(Tracer& tracer, Borrowed<> name) override;
};

}  // namespace stator
