/// Functions that are called as a whole instead of inlined: code that works on numpy arrays would break at every line.
#include <algorithm>

#include "base/names.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "trace/interpreter.h"
#include "value/builtins/builtin.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"

namespace stator {

namespace {

/// Whether instances have state in C: arrays, generators of random numbers, files.
bool keeps_state_in_c(PyTypeObject* type) {
    while (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) type = type->tp_base;
    return type != &PyBaseObject_Type;
}

/// Whether a value contains no tensor. Looks only at what is cheap to see: a wrong result costs only speed.
bool has_no_tensors(const Value* value) {
    if (value == nullptr) return true;
    switch (value->kind) {
        case Kind::Null:
        case Kind::Constant:
        case Kind::Builtin:
        case Kind::Class:
        case Kind::Function:
        case Kind::PythonModule:
        case Kind::Scalar:
        case Kind::Slice:
        case Kind::Iterator:
            return true;
        case Kind::Cell:
            return has_no_tensors(static_cast<const CellValue*>(value)->contents);
        case Kind::Tuple:
        case Kind::List:
            return std::ranges::all_of(static_cast<const SequenceValue*>(value)->items, has_no_tensors);
        case Kind::Method:
            return has_no_tensors(static_cast<const MethodValue*>(value)->self);
        case Kind::Object:
            return keeps_state_in_c(value->type());
        default:
            return false;
    }
}

bool mentions(PyCodeObject* code, std::string_view name) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
        if (utf8(PyTuple_GET_ITEM(code->co_names, i)) == name) return true;
    return false;
}

/// `torch._dynamo.skip_frame()` is about the function that calls it, which is the innermost one. Null if that is the
/// entered function.
PyCodeObject* inlined_function_to_skip(const std::vector<Activation*>& frames) {
    for (std::size_t i = frames.size(); i-- > 1;) {
        if (frames[i]->is_task) continue;
        PyCodeObject* code = static_cast<const BytecodeFrame&>(*frames[i]).function->code;
        return mentions(code, "skip_frame") ? code : nullptr;
    }
    return nullptr;
}

bool works_without_tensors(const BytecodeFrame& frame) {
    return frame.generator == nullptr && !mentions(frame.function->code, "torch") &&
           std::ranges::all_of(frame.slots, has_no_tensors) && std::ranges::all_of(frame.stack, has_no_tensors);
}

std::string_view module_of(PyObject* globals) {
    PyObject* name = globals == nullptr ? nullptr : PyDict_GetItemString(globals, "__name__");
    return name == nullptr || !PyUnicode_CheckExact(name) ? std::string_view() : utf8(name);
}

bool is_of_higher_order_operations(PyObject* globals) {
    return module_of(globals).starts_with("torch._higher_order_ops.");
}

/// Whether a function only forwards a call: `Module.__call__`, or the wrapper that `stator.compile` puts around
/// callables without a frame.
bool only_forwards(const FunctionValue& function) {
    auto code_of = [](PyObject* known) { return PyFunction_GET_CODE(known); };
    auto* code = reinterpret_cast<PyObject*>(function.code);
    if (code == code_of(torch_room::known().module_call) || code == code_of(torch_room::known().module_call_impl))
        return true;
    return module_of(function.globals) == "stator.api";
}

/// Whether the value is a callable that was compiled with `fullgraph=True`. The option is guarded: the same function
/// may be compiled without it in a later call.
bool is_compiled_as_one_graph(Tracer& tracer, const Value* value) {
    const ObjectValue* object = value == nullptr ? nullptr : cast<ObjectValue>(value);
    if (object == nullptr || object->outside == nullptr) return false;
    PyObject* const name = interned("_stator_options");
    if (cpython::lookup_in_mro(object->class_, name, nullptr) == nullptr) return false;
    Ref<> options = Ref<>::steal(PyObject_GetAttr(object->outside, name));
    PyErr_Clear();
    if (!options || !PyDict_Check(options.get())) return false;
    PyObject* chosen = PyDict_GetItemWithError(options.get(), interned("fullgraph"));
    if (chosen == nullptr) return false;
    if (object->source != nullptr) {
        Provenance& provenance = tracer.provenance();
        Source* held = provenance.child(object->source, Access::Member, name, 0, options.get());
        Source* option = provenance.child(held, Access::DictItem, interned("fullgraph"), 0, chosen);
        tracer.guard({GuardKind::Identity, option, chosen});
    }
    return chosen == Py_True;
}

/// Whether the instruction that the frame waits for calls such a callable: it is among the operands in front, which
/// stay on the stack.
bool waits_for_one_graph(Tracer& tracer, const BytecodeFrame& frame) {
    const auto pops = static_cast<std::size_t>(frame.pops);
    if (pops < 2 || pops > frame.stack.size()) return false;
    return is_compiled_as_one_graph(tracer, frame.top(pops - 1)) ||
           is_compiled_as_one_graph(tracer, frame.top(pops - 2));
}

}  // namespace

bool Interpreter::keeps_compiled_by_torch() {
    if (wants_one_graph_) {
        inlined_torch_compile_ = true;
        return false;
    }
    auto belongs_to_entered = [](const Activation* frame) {
        return frame->is_task || only_forwards(*static_cast<const BytecodeFrame*>(frame)->function);
    };
    return is_resumed_ || !std::ranges::all_of(stack_.frames, belongs_to_entered);
}

bool Interpreter::is_where_breaks_are_errors() {
    for (std::size_t i = 0; i + 1 < stack_.frames.size(); ++i)
        if (!stack_.frames[i]->is_task &&
            waits_for_one_graph(*this, static_cast<const BytecodeFrame&>(*stack_.frames[i])))
            return true;
    PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), interned("torch._dynamo.utils"));
    PyObject* globals = module == nullptr || !PyModule_Check(module) ? nullptr : PyModule_GetDict(module);
    if (globals == nullptr) return false;
    PyObject* const name = interned("_error_on_graph_break");
    if (DictValue* changed = changed_dict(*this, globals)) {
        auto* value = cast<ConstantValue>(changed->find(*this, name));
        return value != nullptr && value->held == Py_True;
    }
    return PyDict_GetItemWithError(globals, name) == Py_True;
}

PyCodeObject* Interpreter::function_without_tensors() const {
    if (end_ == TraceEnd::Failed) return inlined_function_to_skip(stack_.frames);
    const bool is_by_random_number = report_.kind == BreakKind::DataDependent && needs_random_number_;
    if (report_.kind != BreakKind::UnknownFunction && report_.kind != BreakKind::UnknownObject && !is_by_random_number)
        return nullptr;
    PyCodeObject* outermost = nullptr;
    for (std::size_t i = stack_.frames.size(); i-- > 1;) {
        if (stack_.frames[i]->is_task) continue;
        auto& frame = static_cast<const BytecodeFrame&>(*stack_.frames[i]);
        if (!works_without_tensors(frame)) break;
        outermost = frame.function->code;
    }
    return outermost;
}

bool Interpreter::is_in_front_end() const {
    for (std::size_t i = stack_.start.depth; i < stack_.frames.size(); ++i) {
        if (stack_.frames[i]->is_task) continue;
        PyObject* globals = static_cast<const BytecodeFrame&>(*stack_.frames[i]).function->globals;
        if (is_of_higher_order_operations(globals) || module_of(globals) == "torch.nn.attention.flex_attention")
            return true;
    }
    return false;
}

bool Interpreter::is_in_higher_order_operation() const {
    return recorder_.deferred_graphs().is_in_subgraph() || is_in_front_end();
}

std::vector<PyCodeObject*> Interpreter::transforms_to_call_whole() {
    std::vector<PyCodeObject*> codes;
    if (report_.kind != BreakKind::Rebuild) return codes;
    for (PyCodeObject* code : recorder_.transforms().calls())
        if (!knowledge_->called_whole.contains(code)) codes.push_back(code);
    return codes;
}

Interpreter::ModuleRole Interpreter::module_role(PyObject* globals) {
    auto [known, is_new] = module_roles_.try_emplace(globals, ModuleRole::Inlined);
    if (!is_new) return known->second;
    const std::string_view module = module_of(globals);
    // The functions of `random` all call a generator written in C; higher-order operations work on graphs of their own,
    // which only PyTorch can do.
    if (is_of_higher_order_operations(globals) || module == "random")
        known->second = ModuleRole::LeftToPython;
    else if (module == "torch._functorch.vmap" || module == "torch._functorch.apis" ||
             module == "torch._functorch.eager_transforms")
        known->second = ModuleRole::Transforms;
    return known->second;
}

void Interpreter::expect_inlined(FunctionValue* function) {
    const bool is_left = module_role(function->globals) == ModuleRole::LeftToPython;
    // (A handler calls the front end of a higher-order operation as a part of one instruction.)
    const bool is_front_end =
        is_left && is_of_higher_order_operations(function->globals) &&
        ((function->outside != nullptr && Handlers::instance().find(function->outside) != nullptr) ||
         is_in_front_end() || utf8(function->code->co_qualname).starts_with("mark_compile_region"));
    if (is_left && !is_front_end)
        break_graph(BreakKind::UnknownFunction, "function " + function->print() + " of module " +
                                                    short_repr(PyDict_GetItemString(function->globals, "__name__")) +
                                                    " is called");
    if (!knowledge_->called_whole.contains(function->code)) return;
    if (is_of_transforms(function))
        break_graph(BreakKind::UnsupportedTensor, "tensors of the function transform " + function->print() +
                                                      " are still used where the captured region ends");
    if (mentions(function->code, "skip_frame")) {
        const std::string reason = "function " + function->print() + " calls torch._dynamo.skip_frame";
        // The program may allow it only inside of that function, so it is no error: its callers run uncompiled too.
        if (is_where_breaks_are_errors()) throw Break{BreakKind::GraphBreakCall, reason, false};
        break_graph(BreakKind::DisabledFunction, reason);
    }
    break_graph(BreakKind::UnknownFunction,
                "function " + function->print() + " uses no tensors and calls C functions that Stator has no model of");
}

bool Interpreter::is_of_transforms(const FunctionValue* function) {
    return module_role(function->globals) == ModuleRole::Transforms;
}

Task Interpreter::call_transform(FunctionValue* function, Arguments arguments) {
    FunctionTransforms& transforms = recorder_.transforms();
    transforms.begin_call(function->code);
    Value* result = nullptr;
    try {
        result = co_await push_call(function, arguments);
    } catch (const Raised&) {
        transforms.end_call();
        throw;
    }
    transforms.end_call();
    co_return result;
}

}  // namespace stator
