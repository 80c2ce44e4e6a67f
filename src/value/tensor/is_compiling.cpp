#include "value/tensor/is_compiling.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "value/kinds/function.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// A caller of `is_compiling`; without a name, every function of its module.
struct Caller {
    std::string_view module;
    std::string_view function = {};
};

/// Library functions that compute something else, or check less, if `is_compiling()` is True, to avoid code that Stator
/// captures or breaks at. They get False, as uncompiled.
///
/// Not listed is `torch.optim.optimizer._get_value`, with which Adam, Adamax, NAdam, RAdam, ASGD and Adagrad read their
/// step count. Uncompiled it returns `step.item()`, and the rest (`1 - beta ** step`) is computed by Python in double
/// precision. When compiling it returns the tensor, and the rest is computed in single precision, so that parameters
/// differ in their last bits. The alternatives:
/// - `item()` breaks the graph, once for each parameter and step. A graph has no numbers that it reads from a tensor:
///   for aot_autograd they would be unbacked symbols, which it rejects without `capture_scalar_outputs`.
/// - A double-precision tensor instead of the number is closer, but tensor operations compute some results differently
///   from Python (`x ** 0.5` is a square root, which differs in the last bit of a double in one case of a hundred):
///   sixty steps of Adam had the same bits in single precision, those of AdamW with `amsgrad` did not, nor those of
///   either in double precision. With a parameter of zero dimensions the results would be promoted to double, which a
///   Python number does not do. And after a graph break the program sees a tensor instead of a float (RAdam's `if rho_t
///   > 5`).
/// A solution needs a number in the graph that is promoted like a Python number and leaves the graph as a float.
constexpr Caller kGetFalse[] = {
    // Would skip the hooks that have to run after an exception too.
    {"torch.nn.modules.module", "Module._call_impl"},
    // Would not convert a padded batch to a nested tensor, which zeroes the padding and may shorten the sequences.
    // Breaks at the nested tensor.
    {"torch.nn.modules.transformer", "TransformerEncoder.forward"},
    // Would force an option and warn, because torch.compile loses writes of the backward pass to its context.
    {"torch.nn.functional", "linear_cross_entropy"},
    // Would not check that the device supports `capturable=True`, nor that steps are tensors; SGD would multiply by a
    // tensor learning rate instead of using the factor of an addition, which rounds once less.
    {"torch.optim._adafactor"},
    {"torch.optim.adadelta"},
    {"torch.optim.adagrad"},
    {"torch.optim.adam"},
    {"torch.optim.adamax"},
    {"torch.optim.asgd"},
    {"torch.optim.nadam"},
    {"torch.optim.radam"},
    {"torch.optim.rmsprop"},
    {"torch.optim.rprop"},
    {"torch.optim.sgd"},
};

bool gets_false(const FunctionValue& function) {
    if (function.globals == nullptr) return false;
    PyObject* module = PyDict_GetItemString(function.globals, "__name__");
    if (module == nullptr || !PyUnicode_CheckExact(module)) return false;
    std::string_view module_name = utf8(module), name = utf8(function.code->co_qualname);
    return std::ranges::any_of(kGetFalse, [&](const Caller& asker) {
        return asker.module == module_name && (asker.function.empty() || asker.function == name);
    });
}

}  // namespace

Value* value_of_is_compiling(Tracer& tracer) {
    if (gets_false(*tracer.running_function())) return tracer.boolean(false);
    tracer.note_compiling_was_true();
    return tracer.boolean(true);
}

}  // namespace stator
