/// Generators of module `random` (`random.Random`). One from outside is drawn from when a call runs. One that the
/// program makes or seeds in the trace is deterministic: its numbers are constants.
#pragma once

#include "value/kinds/object.h"

namespace stator {

struct RandomGeneratorValue final : ObjectValue {
    RandomGeneratorValue();

    /// A generator of the trace's own in the state that this one has in the program; null if that is not known.
    PyObject* shadow = nullptr;

    /// Draws from the shadow.
    Value* draw(Tracer& tracer, Borrowed<> method, Borrowed<> arguments, PyObject* keywords);
    /// From now on it is in the state of this generator, which nobody else uses.
    void set_shadow(Tracer& tracer, Ref<> generator);

    Value* own_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override;
};

/// `random.Random`.
PyTypeObject* random_generator_class();
/// `getstate` and `setstate` as the class has them. Throw PythonError.
Ref<> state_of_generator(Borrowed<> generator);
void set_state_of_generator(Borrowed<> generator, Borrowed<> state);
/// Calls a method of the class with the generator and these arguments. Null if it raised.
Ref<> call_on_generator(Borrowed<> method, Borrowed<> generator, Borrowed<> arguments, PyObject* keywords);

/// A value as a generator whose class is exactly `random.Random`; null for any other.
RandomGeneratorValue* as_random_generator(Value* value);

}  // namespace stator
