#include "value/kinds/function.h"

#include <algorithm>
#include <optional>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "bytecode/order.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "torch/tensor.h"
#include "value/builtins/arrays.h"
#include "value/builtins/builtin.h"
#include "value/builtins/config_patches.h"
#include "value/builtins/single_dispatch.h"
#include "value/effect_log.h"
#include "value/kinds/class.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/kinds/weak.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/data_numbers.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/is_compiling.h"
#include "value/tensor/marked_functions.h"
#include "value/tensor/optimizers.h"
#include "value/tensor/torch_function.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

// --- cells
// -------------------------------------------------------------------------------------------------------------

Value* CellValue::get(Tracer& tracer) {
    if (read) return contents;
    read = true;
    tracer.on_undo([this] { read = false; });
    PyObject* held = PyCell_GET(outside);
    Source* place = tracer.provenance().child(source, Access::CellContents, name, 0, held);
    if (held == nullptr) {
        tracer.guard({GuardKind::Absent, place});
        return nullptr;
    }
    contents = tracer.outside(place, held);
    return contents;
}

namespace {

/// The instructions of a function that assign to a closure variable of that name, or delete it.
std::vector<bytecode::Index> assignments(const bytecode::Code& code, Borrowed<> name) {
    std::vector<bytecode::Index> found;
    for (bytecode::Index at{0}; at.value < code.end().value; ++at.value) {
        const bytecode::Instruction& instruction = code[at];
        bool assigns = instruction.op == bytecode::Op::StoreDeref || instruction.op == bytecode::Op::DeleteDeref;
        if (assigns && PyUnicode_Compare(code.slot_name(instruction.arg), name) == 0) found.push_back(at);
    }
    return found;
}

/// Whether a nested function assigns to the variable.
bool is_assigned_inside(PyCodeObject* code, Borrowed<> name) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
        PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
        if (!PyCode_Check(constant)) continue;
        auto* inner = reinterpret_cast<PyCodeObject*>(constant);
        if (!assignments(bytecode::decode(inner), name).empty() || is_assigned_inside(inner, name)) return true;
    }
    return false;
}

}  // namespace

bool CellValue::is_settled() const {
    if (variable_of == nullptr || name == nullptr || contents == nullptr) return false;
    const bytecode::Code& code = bytecode::decode(variable_of);
    const std::vector<bytecode::Index> assigned = assignments(code, name);
    if (assigned.size() != (is_parameter ? 0 : 1)) return false;
    if (!is_parameter && bytecode::is_in_loop(code, assigned.front())) return false;
    return !is_assigned_inside(variable_of, name);
}

void CellValue::set(Tracer& tracer, Value* value) {
    if (source != nullptr) tracer.effects().log({PlanOp::SetCell, {this, value}});
    set_undoably(tracer, contents, value);
    if (!read) set_undoably(tracer, read, true);
}

Outcome CellValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() != interned("cell_contents")) return Value::get_attribute(tracer, name);
    Value* held = get(tracer);
    if (held == nullptr) tracer.raise(PyExc_ValueError, "Cell is empty");
    return held;
}

int CellValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Cell);
    if (contents != nullptr) plan.add(PlanOp::SetCell, {to, contents->rebuild(plan)});
    return to;
}

std::string CellValue::print() const {
    return "cell(" + (contents == nullptr ? std::string() : contents->print()) + ")";
}

// --- functions
// ---------------------------------------------------------------------------------------------------------

std::size_t FunctionValue::default_count() const {
    if (outside == nullptr) return defaults.size();
    PyObject* real_defaults = PyFunction_GET_DEFAULTS(outside);
    return real_defaults == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(real_defaults));
}

Value* FunctionValue::default_at(Tracer& tracer, std::size_t index) {
    if (outside == nullptr) return defaults[index];
    // The number of defaults decides which parameter each of them belongs to.
    PyObject* all = PyFunction_GET_DEFAULTS(outside);
    bool is_new = false;
    Source* tuple = tracer.provenance().child(source, Access::Member, interned("__defaults__"), 0, all, &is_new);
    if (is_new) tracer.guard({GuardKind::Length, tuple, nullptr, PyTuple_GET_SIZE(all)});
    PyObject* held = PyTuple_GET_ITEM(all, static_cast<Py_ssize_t>(index));
    Source* place = tracer.provenance().child(source, Access::Default, nullptr, static_cast<int>(index), held);
    return tracer.outside(place, held);
}

Value* FunctionValue::keyword_default(Tracer& tracer, Borrowed<> name) {
    if (outside == nullptr) {
        for (const Keyword& keyword : keyword_defaults)
            if (PyUnicode_Compare(keyword.name, name) == 0) return keyword.value;
        return nullptr;
    }
    PyObject* real_defaults = PyFunction_GET_KW_DEFAULTS(outside);
    PyObject* held = real_defaults == nullptr ? nullptr : PyDict_GetItemWithError(real_defaults, name);
    Source* place = tracer.provenance().child(source, Access::KeywordDefault, name, 0, held);
    if (held == nullptr) {
        tracer.guard({GuardKind::Absent, place});
        return nullptr;
    }
    return tracer.outside(place, held);
}

CellValue* FunctionValue::closure_cell(Tracer& tracer, std::size_t index) {
    if (outside == nullptr) return closure[index];
    PyObject* held = PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(outside), static_cast<Py_ssize_t>(index));
    Source* place = tracer.provenance().child(source, Access::ClosureCell, nullptr, static_cast<int>(index), held);
    auto* cell = cast<CellValue>(tracer.outside(place, held));
    if (cell->name == nullptr) {
        Ref<> names = checked(PyCode_GetFreevars(code));
        cell->name = tracer.keep(Ref<>::share(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(index))));
    }
    return cell;
}

void FunctionValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Function, source, outside});
}

namespace {

/// `__doc__` of a function with this code, until the program sets it.
Value* doc_in(Tracer& tracer, PyCodeObject* code) {
    PyObject* first = PyTuple_GET_SIZE(code->co_consts) > 0 ? PyTuple_GET_ITEM(code->co_consts, 0) : Py_None;
    return PyUnicode_Check(first) ? tracer.constant(first) : tracer.none();
}

}  // namespace

Outcome FunctionValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (outside != nullptr) {
        // A default has its own source, so that it is guarded like any other value.
        return ObjectValue::get_attribute(tracer, name);
    }
    if (name.get() == interned("__name__")) return set_name != nullptr ? set_name : tracer.constant(code->co_name);
    if (name.get() == interned("__qualname__"))
        return set_qualname != nullptr ? set_qualname : tracer.constant(code->co_qualname);
    if (name.get() == interned("__doc__") && set_doc != nullptr) return set_doc;
    if (name.get() == interned("__module__") && set_module != nullptr) return set_module;
    if (name.get() == interned("__code__")) return tracer.constant(reinterpret_cast<PyObject*>(code));
    if (name.get() == interned("__defaults__")) return defaults.empty() ? tracer.none() : make_tuple(tracer, defaults);
    if (name.get() == interned("__closure__")) {
        if (closure.empty()) return tracer.none();
        return make_tuple(tracer, {closure.begin(), closure.end()});
    }
    if (name.get() == interned("__module__")) {
        PyObject* module = PyDict_GetItemString(globals, "__name__");
        return module == nullptr ? tracer.none() : tracer.constant(module);
    }
    if (name.get() == interned("__doc__")) return doc_in(tracer, code);
    if (name.get() == interned("__kwdefaults__")) {
        if (keyword_defaults.empty()) return tracer.none();
        auto* dict = tracer.make<DictValue>();
        for (const Keyword& keyword : keyword_defaults)
            dict->insert(tracer, tracer.constant(keyword.name), keyword.value);
        return dict;
    }
    if (name.get() == interned("__annotations__")) {
        if (annotations == nullptr || annotations->kind == Kind::Tuple)
            set_undoably(tracer, annotations, annotations_dict(tracer));
        return annotations;
    }
    if (name.get() == interned("__type_params__") && own_attribute(tracer, name) == nullptr)
        return make_tuple(tracer, {});  // 3.12; the trace never creates a function with type parameters
    if (name.get() == interned("__globals__")) return tracer.outside(tracer.provenance().pinned(globals), globals);
    if (Value* own = own_attribute(tracer, name); own != nullptr) return own;
    return ObjectValue::get_attribute(tracer, name);
}

DictValue* FunctionValue::annotations_dict(Tracer& tracer) {
    auto* dict = tracer.make<DictValue>();
    if (annotations == nullptr) return dict;
    // MAKE_FUNCTION gets names and values alternately.
    const std::vector<Value*>& pairs = static_cast<TupleValue*>(annotations)->all(tracer);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) dict->insert(tracer, pairs[i], pairs[i + 1]);
    return dict;
}

void FunctionValue::replace_code(Tracer& tracer, Value* value) {
    tracer.realize(value);
    PyObject* given = value->object();
    if (given == nullptr || !PyCode_Check(given))
        tracer.raise(PyExc_TypeError, "__code__ must be set to a code object");
    // Open frames and generators read the code that they run through their function.
    if (is_entered)
        tracer.break_graph(BreakKind::UnknownObject, "__code__ of a function is set after the function was called");
    auto* other = reinterpret_cast<PyCodeObject*>(given);
    if (static_cast<std::size_t>(PyCode_GetNumFree(other)) != closure.size())
        tracer.break_graph(BreakKind::UnknownObject, "__code__ of a function is set to code with another closure");
    // A function takes these from its code when it is made, and keeps them.
    if (set_name == nullptr) set_undoably(tracer, set_name, tracer.constant(code->co_name));
    if (set_qualname == nullptr) set_undoably(tracer, set_qualname, tracer.constant(code->co_qualname));
    if (set_doc == nullptr) set_undoably(tracer, set_doc, doc_in(tracer, code));
    set_undoably(tracer, code, other);
}

bool FunctionValue::set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    tracer.effects().expect_made_in_trace(this);
    if (value == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "attribute '" + std::string(utf8(name)) + "' of a function is deleted");
    bool is_text = name.get() == interned("__name__") || name.get() == interned("__qualname__");
    if (is_text) {
        tracer.realize(value);
        if (value->object() == nullptr || !PyUnicode_Check(value->object()))
            tracer.raise(PyExc_TypeError, std::string(utf8(name)) + " must be set to a string object");
    }
    if (name.get() == interned("__name__")) {
        set_undoably(tracer, set_name, value);
    } else if (name.get() == interned("__qualname__")) {
        set_undoably(tracer, set_qualname, value);
    } else if (name.get() == interned("__doc__")) {
        set_undoably(tracer, set_doc, value);
    } else if (name.get() == interned("__module__")) {
        set_undoably(tracer, set_module, value);
    } else if (name.get() == interned("__annotations__")) {
        tracer.realize(value);
        if (value->kind != Kind::Dict) tracer.raise(PyExc_TypeError, "__annotations__ must be set to a dict object");
        set_undoably(tracer, annotations, value);
    } else if (name.get() == interned("__code__")) {
        replace_code(tracer, value);
    } else if (name.get() == interned("__type_params__")) {
        tracer.realize(value);
        if (value->kind != Kind::Tuple || !static_cast<TupleValue*>(value)->items.empty())
            tracer.break_graph(BreakKind::UnknownObject, "type parameters of a function are set");
    } else if (name.get() == interned("__defaults__")) {
        tracer.realize(value);
        if (value->kind != Kind::Tuple && value->object() != Py_None)
            tracer.raise(PyExc_TypeError, "__defaults__ must be set to a tuple object");
        std::vector<Value*> given;
        if (value->kind == Kind::Tuple) given = static_cast<TupleValue*>(value)->all(tracer);
        set_undoably(tracer, defaults, std::move(given));
    } else {
        return ObjectValue::set_kept_attribute(tracer, name, value);
    }
    return true;
}

bool is_disabled(PyObject* function) {
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    return attributes != nullptr && PyDict_GetItemWithError(attributes, interned("_torchdynamo_disable")) == Py_True;
}

namespace {

[[noreturn]] void raise_misused_mark(PyObject* exception_class, const std::string& text) {
    Ref<> exception = checked(PyObject_CallFunction(exception_class, "s", text.c_str()));
    checked(PyObject_SetAttrString(exception.get(), "_stator_misused_mark", Py_True));
    PyErr_SetObject(exception_class, exception.get());
    throw PythonError();
}

bool is_of_module(PyObject* callable, std::string_view wanted) {
    Ref<> module = Ref<>::steal(PyObject_GetAttrString(callable, "__module__"));
    PyErr_Clear();
    return module && PyUnicode_Check(module.get()) && utf8(module.get()) == wanted;
}

}  // namespace

bool is_misused_mark(Borrowed<> exception) {
    return PyObject_HasAttrString(exception, "_stator_misused_mark") != 0;
}

void refuse_forbidden(Tracer& tracer, PyObject* callable, PyObject* attributes) {
    if (attributes == nullptr || PyDict_GetItemWithError(attributes, interned("_dynamo_forbidden")) != Py_True) return;
    if (PyFunction_Check(callable) && is_of_module(callable, "torch._dynamo.decorators")) return;
    // A frame that is not compiled calls it, and only PyTorch's own function is.
    PyObject* entered = tracer.provenance().roots().front()->object;
    if (is_of_module(callable, "torch._dynamo.decorators") && is_of_module(entered, "torch.compiler"))
        raise_misused_mark(PyExc_RuntimeError, "attempted to set_stance in a torch.compile region");
    raise_misused_mark(PyExc_AssertionError,
                       "Attempt to trace forbidden callable " + short_repr(callable) +
                           ": it is marked with torch._dynamo.forbid_in_graph, and a compiled function calls it");
}

namespace {

/// `torch._dynamo.error_on_graph_break` compares with True, so that any other value would silently have no effect.
void refuse_other_than_bool(PyObject* function, const Arguments& arguments) {
    PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
    if (utf8(name) != "error_on_graph_break" || arguments.positional.size() != 1 ||
        !is_of_module(function, "torch._dynamo.decorators"))
        return;
    PyObject* given = arguments.positional[0]->object();
    if (given != nullptr && !PyBool_Check(given))
        raise_misused_mark(PyExc_TypeError,
                           "torch._dynamo.error_on_graph_break takes True or False, not " + short_repr(given));
}

/// `disable(reason=...)`, after a colon; empty if the program gives no reason.
std::string reason_for_disabling(PyObject* function) {
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    PyObject* reason =
        attributes == nullptr ? nullptr : PyDict_GetItemWithError(attributes, interned("_torchdynamo_disable_msg"));
    return reason != nullptr && PyUnicode_Check(reason) ? ": " + std::string(utf8(reason)) : "";
}

/// The function that was passed to `torch.compile`; null if this function is not a result of it. (`functools.wraps`
/// copies the attributes to other functions.)
PyObject* compiled_by_torch(PyObject* function) {
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    if (attributes == nullptr) return nullptr;
    PyObject* id = PyDict_GetItemWithError(attributes, interned("_torchdynamo_wrapper_id"));
    if (id == nullptr || !PyLong_Check(id) || PyLong_AsVoidPtr(id) != function) return nullptr;
    return PyDict_GetItemWithError(attributes, interned("_torchdynamo_orig_callable"));
}

bool is_marked_constant(PyObject* function) {
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    return attributes != nullptr && PyDict_GetItemWithError(attributes, interned("_dynamo_marked_constant")) == Py_True;
}

/// The code of the wrappers that `dataclasses` and `reprlib` put around `__repr__` against infinite recursion: they
/// keep a set of objects whose repr is being computed.
bool is_repr_guard(PyCodeObject* code) {
    static const std::vector<PyObject*> guards = [] {
        std::vector<PyObject*> found;
        auto collect = [&](auto& self, PyObject* outer) -> void {
            PyObject* constants = reinterpret_cast<PyCodeObject*>(outer)->co_consts;
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
                PyObject* inner = PyTuple_GET_ITEM(constants, i);
                if (!PyCode_Check(inner)) continue;
                if (utf8(reinterpret_cast<PyCodeObject*>(inner)->co_name) == "wrapper")
                    found.push_back(Py_NewRef(inner));
                self(self, inner);
            }
        };
        for (auto [module, name] :
             {std::pair{"dataclasses", "_recursive_repr"}, std::pair{"reprlib", "recursive_repr"}}) {
            Ref<> function = find_imported(module, name);
            if (function && PyFunction_Check(function.get())) collect(collect, PyFunction_GET_CODE(function.get()));
        }
        return found;
    }();
    return std::ranges::find(guards, reinterpret_cast<PyObject*>(code)) != guards.end();
}

void guard_identity(Tracer& tracer, const FunctionValue* function) {
    tracer.guard({GuardKind::Identity, function->source, function->outside});
}

/// A call of a function that Stator has a model of, or that is an operation of PyTorch; nothing for other functions.
std::optional<Outcome> call_modelled(Tracer& tracer, FunctionValue* function, const Arguments& arguments) {
    PyObject* outside = function->outside;
    if (tracer.modes().has_function_modes())
        if (auto answer = call_python_under_modes(tracer, function, arguments)) {
            guard_identity(tracer, function);
            return answer;
        }
    if (has_tensor_object(arguments)) {
        torch_room::Role role = torch_room::role_of(outside);
        if (role == torch_room::Role::InGraph || role == torch_room::Role::TensorMethod) {
            guard_identity(tracer, function);
            return call_python_on_tensor_objects(tracer, function, arguments);
        }
    }
    if (has_data_number(arguments))
        if (Value* answer = call_on_data_numbers(tracer, outside, arguments)) {
            guard_identity(tracer, function);
            return answer;
        }
    if (Handler handler = Handlers::instance().find(outside); handler != nullptr) {
        guard_identity(tracer, function);
        return handler(tracer, arguments);
    }
    if (Handlers::instance().is_pure(outside)) {
        guard_identity(tracer, function);
        if (Value* folded = fold(tracer, outside, arguments); folded != nullptr) return folded;
    }
    if (is_array_function(outside))
        if (Value* answer = call_array_function(tracer, outside, arguments)) {
            guard_identity(tracer, function);
            return answer;
        }
    switch (torch_room::role_of(outside)) {
        case torch_room::Role::InGraph:
            guard_identity(tracer, function);
            if (torch_room::is_marked_in_graph(outside)) return call_in_graph(tracer, outside, arguments);
            return tracer.recorder().emit_function(outside, arguments);
        case torch_room::Role::MarksNonstrict:
            guard_identity(tracer, function);
            return mark_nonstrict(tracer, outside, arguments);
        case torch_room::Role::TensorMethod:
            if (arguments.positional.empty() || arguments.positional[0]->kind != Kind::Tensor) break;
            guard_identity(tracer, function);
            return tracer.recorder().emit_method(reinterpret_cast<PyFunctionObject*>(outside)->func_name, arguments);
        case torch_room::Role::Disallowed:
            if (utf8(reinterpret_cast<PyFunctionObject*>(outside)->func_name) == "skip_frame")
                throw Break{BreakKind::GraphBreakCall, "function " + function->print() + " is called", false};
            tracer.break_graph(BreakKind::GraphBreakCall, "function " + function->print() + " requests a graph break");
        case torch_room::Role::IsCompiling:
            return value_of_is_compiling(tracer);
        case torch_room::Role::Bookkeeping:
            return tracer.none();
        case torch_room::Role::None:
            break;
    }
    return std::nullopt;
}

/// An argument of a function marked `assume_constant_result`: a constant, or an object from outside as it is. Empty for
/// anything else.
Ref<> argument_of_assumed(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (Ref<> constant = value->as_constant(tracer)) return constant;
    // (A side effect that the plan is to replay would be missing.)
    if (value->kind != Kind::Object || !tracer.effects().empty() || guard_weakly(tracer, value) == nullptr) return {};
    return Ref<>::share(value->object());
}

/// The result of such a function, which is called now; null if an argument is neither. The program says that it may be
/// used in all calls with these arguments, so it may be a tensor.
Value* assumed_constant(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    Ref<> positional = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.positional.size())));
    Ref<> keywords = checked(PyDict_New());
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        Ref<> argument = argument_of_assumed(tracer, arguments.positional[i]);
        if (!argument) return nullptr;
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), argument.release());
    }
    for (const Keyword& keyword : arguments.keywords) {
        Ref<> argument = argument_of_assumed(tracer, keyword.value);
        if (!argument) return nullptr;
        checked(PyDict_SetItem(keywords.get(), keyword.name, argument.get()));
    }
    Ref<> result = Ref<>::steal(PyObject_Call(function, positional.get(), keywords.get()));
    if (!result) tracer.raise_from_python();
    if (!torch_room::is_tensor(result.get())) return tracer.fresh(std::move(result));
    PyObject* tensor = tracer.keep(std::move(result));
    return tracer.outside(tracer.provenance().pinned(tensor), tensor);
}

/// The `__init__` of a tensor subclass that is marked so that `torch.export` sees it. It has to be disabled for
/// TorchDynamo then, which does something of its own with it: what it does is no secret. Null for other functions.
PyObject* exported_constructor(PyObject* function) {
    static PyObject* const code_of_disabled = imported("stator.wrappers", "CODE_OF_DISABLED");
    static PyObject* const constructor_of = imported("stator.wrappers", "exported_constructor");
    if (PyFunction_GET_CODE(function) != code_of_disabled) return nullptr;
    Ref<> constructor = checked(PyObject_CallOneArg(constructor_of, function));
    return constructor.get() == Py_None ? nullptr : constructor.get();  // (which the function keeps)
}

/// A call of a function that a decorator of PyTorch has marked; nothing for other functions.
std::optional<Outcome> call_marked(Tracer& tracer, FunctionValue* function, const Arguments& arguments) {
    PyObject* outside = function->outside;
    auto name = [&] { return "function " + function->print(); };
    refuse_forbidden(tracer, outside, reinterpret_cast<PyFunctionObject*>(outside)->func_dict);
    refuse_other_than_bool(outside, arguments);
    if (PyObject* original = torch_room::optimizer_initialization(outside)) {
        guard_identity(tracer, function);
        make_optimizer_state(tracer, original, arguments);
        if (original == outside) return std::nullopt;
        return operations::call(tracer, tracer.outside(tracer.provenance().pinned(original), original), arguments);
    }
    if (PyObject* constructor = exported_constructor(outside)) {
        guard_identity(tracer, function);
        return operations::call(tracer, tracer.outside(tracer.provenance().pinned(constructor), constructor),
                                arguments);
    }
    if (is_disabled(outside))
        tracer.break_graph(BreakKind::DisabledFunction,
                           name() + " is marked torch.compiler.disable" + reason_for_disabling(outside));
    if (PyObject* original = compiled_by_torch(outside)) {
        if (tracer.keeps_compiled_by_torch())
            tracer.break_graph(BreakKind::CompiledByTorch, name() + " is compiled by torch.compile");
        // Inlines the original function: two compilers in one frame would interfere.
        guard_identity(tracer, function);
        return operations::call(tracer, tracer.outside(tracer.provenance().pinned(original), original), arguments);
    }
    if (is_marked_constant(outside)) {
        guard_identity(tracer, function);
        if (Value* assumed = assumed_constant(tracer, outside, arguments)) return assumed;
        tracer.break_graph(BreakKind::UnknownFunction,
                           name() + " is marked assume_constant_result but its arguments are not constants");
    }
    return std::nullopt;
}

}  // namespace

Outcome FunctionValue::call(Tracer& tracer, const Arguments& arguments) {
    if (outside == nullptr) return tracer.push_call(this, arguments);
    if (std::optional<Outcome> outcome = call_modelled(tracer, this, arguments)) return *outcome;
    if (std::optional<Outcome> outcome = call_marked(tracer, this, arguments)) return *outcome;
    if (std::optional<Outcome> outcome = call_of_config_patch(tracer, this, arguments)) return *outcome;
    if (std::optional<Outcome> outcome = call_single_dispatch(tracer, this, arguments)) return *outcome;
    if (is_repr_guard(code)) {
        // An object that contains itself nests until the trace breaks.
        Ref<> names = checked(PyCode_GetFreevars(code));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
            if (utf8(PyTuple_GET_ITEM(names.get(), i)) == "user_function")
                return operations::call(tracer, closure_cell(tracer, static_cast<std::size_t>(i))->get(tracer),
                                        arguments);
    }
    return tracer.push_call(this, arguments);
}

int FunctionValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr && attributes.empty())
        return source->access == Access::Pinned ? plan.constant(outside) : plan.fetch(source);
    if (source != nullptr) return ObjectValue::rebuild(plan);
    int to = plan.reserve(this);
    auto tuple_of = [&](const auto& values) {
        std::vector<std::int32_t> parts;
        for (Value* value : values) parts.push_back(value->rebuild(plan));
        return plan.add(PlanOp::Tuple, std::move(parts));
    };
    std::vector<std::int32_t> from = {plan.constant(globals), plan.constant(code->co_name), -1, -1, -1, -1};
    if (set_name != nullptr) from[1] = set_name->rebuild(plan);
    if (!defaults.empty()) from[2] = tuple_of(defaults);
    if (!keyword_defaults.empty()) {
        std::vector<std::int32_t> pairs;
        for (const Keyword& keyword : keyword_defaults) {
            pairs.push_back(plan.constant(keyword.name));
            pairs.push_back(keyword.value->rebuild(plan));
        }
        from[3] = plan.add(PlanOp::Dict, std::move(pairs));
    }
    if (!closure.empty()) {
        // The closure may reference the function itself: its cells are filled after the function is created.
        std::vector<std::int32_t> cells;
        for (CellValue* cell : closure) {
            if (int known = plan.known(cell); known >= 0 || cell->source != nullptr) {
                cells.push_back(cell->rebuild(plan));
                continue;
            }
            int place = plan.reserve(cell);
            plan.add_to(place, PlanOp::Cell);
            cells.push_back(place);
            pending_cells.push_back(cell);
        }
        from[4] = plan.add(PlanOp::Tuple, std::move(cells));
    }
    if (auto* pairs = cast<TupleValue>(annotations)) {
        std::vector<std::int32_t> parts;
        for (Value* part : pairs->items) parts.push_back(part->rebuild(plan));
        from[5] = plan.add(PlanOp::Dict, std::move(parts));
    } else if (annotations != nullptr) {
        from[5] = annotations->rebuild(plan);
    }
    plan.add_to(to, PlanOp::Function, std::move(from), reinterpret_cast<PyObject*>(code));
    for (CellValue* cell : std::exchange(pending_cells, {}))
        if (cell->contents != nullptr) plan.add(PlanOp::SetCell, {plan.known(cell), cell->contents->rebuild(plan)});
    auto set = [&](const char* name, Value* value) {
        if (value != nullptr) plan.add(PlanOp::SetAttribute, {to, value->rebuild(plan)}, interned(name));
    };
    set("__qualname__", set_qualname);
    set("__doc__", set_doc);
    set("__module__", set_module);
    rebuild_attributes(plan, to, this);
    return to;
}

std::string FunctionValue::print() const {
    if (outside != nullptr) return std::string(utf8(reinterpret_cast<PyFunctionObject*>(outside)->func_qualname));
    return std::string(utf8(code->co_qualname));
}

// --- bound methods
// -----------------------------------------------------------------------------------------------------

void MethodValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(outside))});
    bool is_python = PyMethod_Check(outside);
    PyObject* real_function = is_python ? PyMethod_GET_FUNCTION(outside) : cpython::c_method_descriptor(outside).get();
    PyObject* real_self = is_python ? PyMethod_GET_SELF(outside) : PyCFunction_GET_SELF(outside);
    function = tracer.outside(tracer.provenance().child(source, Access::MethodFunction, nullptr, 0, real_function),
                              real_function);
    self = tracer.outside(tracer.provenance().child(source, Access::MethodSelf, nullptr, 0, real_self), real_self);
}

PyTypeObject* MethodValue::type() const {
    if (outside != nullptr) return Py_TYPE(outside);
    if (function == nullptr || function->kind != Kind::Builtin) return &PyMethod_Type;
    return Py_TYPE(function->object()) == &PyWrapperDescr_Type ? cpython::method_wrapper_class() : &PyCFunction_Type;
}

Outcome MethodValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() == interned("__self__")) return self;
    if (name.get() == interned("__func__") && type() == &PyMethod_Type) return function;
    if (name.get() == interned("__class__")) return tracer.constant(reinterpret_cast<PyObject*>(type()));
    return operations::get_attribute(tracer, function, name);
}

Outcome MethodValue::call(Tracer& tracer, const Arguments& arguments) {
    return operations::call(tracer, function, arguments.after(self));
}

Outcome MethodValue::compare(Tracer& tracer, Comparison op, Value* other) {
    auto* method = cast<MethodValue>(other);
    if (method == nullptr || (op != Comparison::Equal && op != Comparison::NotEqual)) return nullptr;
    tracer.realize(method);
    bool equal = operations::same_object(tracer, self, method->self) &&
                 operations::same_object(tracer, function, method->function);
    return tracer.boolean(equal == (op == Comparison::Equal));
}

int MethodValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return plan.fetch(source);
    int of = function->rebuild(plan), bound_to = self->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    PyObject* descriptor = function->kind == Kind::Builtin ? function->object() : nullptr;
    if (descriptor == nullptr || Py_TYPE(descriptor)->tp_descr_get == nullptr) {
        plan.add_to(to, PlanOp::Method, {of, bound_to});
        return to;
    }
    // `__get__` treats None as no instance.
    if (self->object() == Py_None) {
        Ref<> bound = checked(Py_TYPE(descriptor)->tp_descr_get(descriptor, Py_None, nullptr));
        plan.add_to(to, PlanOp::Constant, {}, bound);
        return to;
    }
    // C methods are bound through their descriptor; a classmethod is bound to the class, its second argument.
    std::vector<std::int32_t> from{of, bound_to};
    if (Py_IS_TYPE(descriptor, &PyClassMethodDescr_Type))
        from.insert(from.begin() + 1, plan.constant(Py_None));
    else  // methods that receive their defining class have to be bound with one
        from.push_back(plan.constant(reinterpret_cast<PyObject*>(self->type())));
    plan.add_to(to, PlanOp::Call, std::move(from), method_of_class(Py_TYPE(descriptor), "__get__"));
    return to;
}

std::string MethodValue::print() const {
    if (function == nullptr) return "method";
    return "method " + function->print();
}

}  // namespace stator
