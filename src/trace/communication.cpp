/// Functions of PyTorch that communicate between processes (`torch_room::communicates`). Where one of them breaks the
/// graph it is called uncompiled, as a whole: a row of C functions would break it one by one. A module that does so in
/// its `forward` or its hooks is one graph break, at its call. If the entered frame does nothing but call such a
/// module, the frame runs uncompiled. In all three cases the functions of the program below are captured by themselves,
/// as torch._dynamo does it, which skips such frames.
#include <algorithm>

#include "base/names.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "torch/library_code.h"
#include "trace/interpreter.h"
#include "value/kinds/object.h"

namespace stator {

namespace {

PyFunctionObject* function_of(PyObject* callable) {
    if (callable != nullptr && PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
    return callable != nullptr && PyFunction_Check(callable) ? reinterpret_cast<PyFunctionObject*>(callable) : nullptr;
}

/// Whether a hook that runs before or after `forward` is such a function.
template <class Predicate>
bool has_hook(PyObject* module, Predicate predicate) {
    for (const char* name : {"_forward_pre_hooks", "_forward_hooks"}) {
        Ref<> hooks = Ref<>::steal(PyObject_GetAttrString(module, name));
        PyErr_Clear();
        if (!hooks || !PyDict_Check(hooks.get())) continue;
        PyObject *key = nullptr, *hook = nullptr;
        for (Py_ssize_t position = 0; PyDict_Next(hooks.get(), &position, &key, &hook) != 0;)
            if (PyFunctionObject* function = function_of(hook); function != nullptr && predicate(function)) return true;
    }
    return false;
}

PyObject* module_in(Value* value) {
    if (value != nullptr && value->kind == Kind::Cell) value = static_cast<CellValue*>(value)->contents;
    auto* object = value == nullptr ? nullptr : cast<ObjectValue>(value);
    if (object == nullptr || object->outside == nullptr) return nullptr;
    return PyType_IsSubtype(Py_TYPE(object->outside), torch_room::known().module_class) != 0 ? object->outside
                                                                                             : nullptr;
}

bool calls_forward_and_hooks(const FunctionValue* function) {
    return torch_room::calls_forward_and_hooks(function->globals, function->code);
}

}  // namespace

PyObject* Interpreter::entered_module() const {
    PyObject* module = nullptr;
    for (const Activation* activation : stack_.frames) {
        if (activation->is_task) continue;
        auto& frame = static_cast<const BytecodeFrame&>(*activation);
        if (!calls_forward_and_hooks(frame.function)) break;
        // (A variable that is not read again may be gone. All of these frames are for the same module.)
        if (!frame.slots.empty())
            if (PyObject* found = module_in(frame.slots[0])) module = found;
    }
    return module;
}

bool Interpreter::is_in_entered_module() const {
    return std::ranges::all_of(stack_.frames, [](const Activation* frame) {
        return frame->is_task || calls_forward_and_hooks(static_cast<const BytecodeFrame*>(frame)->function);
    });
}

PyCodeObject* Interpreter::communication() const {
    PyCodeObject* outermost = nullptr;
    for (std::size_t i = stack_.frames.size(); i-- > 1;) {
        if (stack_.frames[i]->is_task) continue;
        const FunctionValue* function = static_cast<const BytecodeFrame&>(*stack_.frames[i]).function;
        if (torch_room::communicates(function->globals))
            outermost = function->code;
        else if (!torch_room::is_library_code(function->globals, function->code))
            break;
    }
    if (outermost == nullptr || !wants_one_graph_) return outermost;
    // An error, unless it is a hook of the module that was compiled: hooks of that one are around the graph.
    PyObject* const module = entered_module();
    auto is_outermost = [&](PyFunctionObject* hook) { return cpython::code_of(hook) == outermost; };
    return module != nullptr && has_hook(module, is_outermost) ? outermost : nullptr;
}

bool Interpreter::runs_around_graphs() const {
    if (report_.kind != BreakKind::DisabledFunction || !is_in_entered_module()) return false;
    if (breaks_at_communication_) return true;
    if (!wants_one_graph_) return false;
    PyObject* const module = entered_module();
    return module != nullptr &&
           has_hook(module, [](PyFunctionObject* hook) { return is_disabled(reinterpret_cast<PyObject*>(hook)); });
}

void Interpreter::expect_no_communication(const FunctionValue* function, const Arguments& arguments) {
    const auto& known = knowledge_->communicating;
    if (known.empty()) return;
    auto is_known = [&](PyFunctionObject* one) { return known.contains(cpython::code_of(one)); };
    std::string callee;
    if (known.contains(function->code)) {
        callee = "function " + function->print();
    } else if (torch_room::calls_forward_and_hooks(function->globals, function->code) &&
               !arguments.positional.empty()) {
        PyObject* const module = module_in(arguments.positional[0]);
        if (module == nullptr) return;
        PyObject* const forward = cpython::lookup_in_mro(Py_TYPE(module), interned("forward"), nullptr);
        PyFunctionObject* const computing = function_of(forward);
        if (!has_hook(module, is_known) && (computing == nullptr || !is_known(computing))) return;
        callee = "module " + type_name(Py_TYPE(module));
    } else {
        return;
    }
    breaks_at_communication_ = true;
    break_graph(BreakKind::DisabledFunction,
                callee +
                    " communicates between processes: it runs uncompiled, and what it calls of the program is "
                    "captured by itself");
}

}  // namespace stator
