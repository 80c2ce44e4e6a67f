#include "value/tensor/is_compiling.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "value/kinds/function.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// A function that asks; without a name, every function of its module.
struct Asker {
    std::string_view module;
    std::string_view function = {};
};

/// Functions that would compute something else, or check less, if they were told that they are compiled, to avoid what
/// Stator follows or breaks at. They are told what they would be told uncompiled.
///
/// Not listed is `torch.optim.optimizer._get_value`, by which Adam, Adamax, NAdam, RAdam, ASGD and Adagrad read their
/// step count and the like. Uncompiled it gives `step.item()`, and what follows (`1 - beta ** step`) is computed by
/// Python in double precision; told that it is compiled it gives the tensor, and the same is computed in single
/// precision, so that parameters differ in their last bits. Told otherwise:
/// - `item()` breaks the graph, once for each parameter and step. A graph has no numbers that it reads from a tensor:
///   to aot_autograd they would be unbacked symbols, which it does not take without `capture_scalar_outputs`.
/// - A double-precision tensor in place of the number is nearer, but no number: operations on tensors compute some of
///   it otherwise than Python does (`x ** 0.5` is a square root, which differs in the last bit of a double in one case
///   of a hundred): sixty steps of Adam gave the same bits in single precision, those of AdamW with `amsgrad` did not,
///   nor those of either in double precision. With a parameter of no dimensions results would be double, where a number
///   leaves them what they are. And the program sees a tensor where it would see a float, as soon as the graph breaks
///   (RAdam's `if rho_t > 5`).
/// It takes a number in the graph that is promoted as a number is and leaves it as a float.
constexpr Asker kToldFalse[] = {
    // Would leave out the hooks that are to be called after an exception too.
    {"torch.nn.modules.module", "Module._call_impl"},
    // Would not turn a padded batch into a nested tensor, whose padding comes out as zeros: the sequences may come out
    // shorter. Breaks at the nested tensor.
    {"torch.nn.modules.transformer", "TransformerEncoder.forward"},
    // Would force an option and warn, because torch.compile loses what the backward pass writes to its context.
    {"torch.nn.functional", "linear_cross_entropy"},
    // Would not check that `capturable=True` can be had on the device, nor that steps are counted in tensors; SGD would
    // multiply by a learning rate that is a tensor instead of adding with a factor, which rounds once less.
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

bool is_told_false(const FunctionValue& function) {
    if (function.globals == nullptr) return false;
    PyObject* module = PyDict_GetItemString(function.globals, "__name__");
    if (module == nullptr || !PyUnicode_CheckExact(module)) return false;
    std::string_view module_name = utf8(module), name = utf8(function.code->co_qualname);
    return std::ranges::any_of(kToldFalse, [&](const Asker& asker) {
        return asker.module == module_name && (asker.function.empty() || asker.function == name);
    });
}

}  // namespace

Value* answer_compiling(Tracer& tracer) {
    if (is_told_false(*tracer.running_function())) return tracer.boolean(false);
    tracer.note_told_compiling();
    return tracer.boolean(true);
}

}  // namespace stator
