#include "value/tensor/assertions.h"

#include "base/imported.h"
#include "value/deferred_graph.h"
#include "value/kinds/changing_number.h"
#include "value/recorder.h"
#include "value/tensor/data_numbers.h"
#include "value/tensor/known_contents.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

/// On other devices a failing assertion would end the process, or come too late.
bool can_assert(Tracer& tracer, TensorValue* tensor) {
    tracer.realize(tensor);
    if (tensor->meta->device != torch_room::Device{} || tracer.deferred_graphs().is_open() ||
        tracer.recorder().is_in_transform())
        return false;
    for (Dim size : tensor->meta->sizes)
        if (size.is_unbacked() || size != 1) return false;
    return !known_truth(tracer, tensor).has_value();
}

}  // namespace

bool assert_in_graph(Tracer& tracer, Value* condition) {
    if (auto* tensor = cast<TensorValue>(condition)) {
        static PyObject* const function = imported("torch", "_assert_async");
        if (!can_assert(tracer, tensor)) return false;
        // (Compilers drop the overload without a message.)
        Value* message = tracer.string("an assertion of the program");
        tracer.recorder().emit_function(function, Arguments::of(static_cast<Value*>(tensor), message));
        return true;
    }
    if (!tracer.captures_scalars()) return false;
    static PyObject* const check = imported("torch", "_check");
    Value* truth = symbolic::truth_by_data(tracer, condition);
    return truth != nullptr && symbolic::is_unbacked(truth) &&
           call_on_data_numbers(tracer, check, Arguments::of(truth)) != nullptr;
}

}  // namespace stator
