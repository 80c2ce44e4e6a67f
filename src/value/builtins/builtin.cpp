#include "value/builtins/builtin.h"

#include <algorithm>
#include <utility>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "torch/tensor.h"
#include "value/builtins/arrays.h"
#include "value/builtins/numpy.h"
#include "value/builtins/registry.h"
#include "value/builtins/substitutes.h"
#include "value/kinds/constant.h"
#include "value/kinds/frozen_object.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"
#include "value/recorder.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/torch_function.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

// --- the table
// ---------------------------------------------------------------------------------------------------------

Handlers& Handlers::instance() {
    static Handlers* table = [] {
        auto* made = new Handlers();
        register_all(*made);
        return made;
    }();
    return *table;
}

void Handlers::add(Borrowed<> callable, Handler handler) {
    if (callable == nullptr) {
        PyErr_Clear();
        return;
    }
    Py_INCREF(callable.get());
    handlers_[callable.get()] = handler;
}

void Handlers::add(const char* module, const char* name, Handler handler) {
    if (Ref<> found = find_imported(module, name); found) add(found.get(), handler);
}

void Handlers::add_once_imported(const char* module, const char* name, Handler handler) {
    waiting_.push_back({PyUnicode_InternFromString(module), name, handler});
}

/// Adds the functions of modules that were imported since. False if there are none.
bool Handlers::add_imported() {
    PyObject* const modules = PyImport_GetModuleDict();
    // Asked at every call of a function without a handler: nothing was imported if the number of modules is the same.
    if (PyDict_GET_SIZE(modules) == std::exchange(known_modules_, PyDict_GET_SIZE(modules))) return false;
    auto is_waiting = [&](const Waiting& each) { return PyDict_Contains(modules, each.module) != 1; };
    const auto first = std::ranges::stable_partition(waiting_, is_waiting).begin();
    const std::vector<Waiting> imported(first, waiting_.end());
    waiting_.erase(first, waiting_.end());
    for (const Waiting& each : imported) add(PyUnicode_AsUTF8(each.module), each.name, each.handler);
    return !imported.empty();
}

void Handlers::add_method(PyTypeObject* type, const char* name, Handler handler) {
    PyObject* found = PyDict_GetItemString(cpython::class_dict(type), name);
    if (found != nullptr) add(PyInstanceMethod_Check(found) ? PyInstanceMethod_GET_FUNCTION(found) : found, handler);
}

void Handlers::add_pure(Borrowed<> callable) {
    if (callable == nullptr) return;
    Py_INCREF(callable.get());
    pure_.insert(callable.get());
}

void Handlers::add_pure(const char* module, const char* name) {
    if (Ref<> found = find_imported(module, name); found) add_pure(found.get());
}

void Handlers::add_pure_class(PyTypeObject* type) {
    pure_classes_.insert(type);
}

Handler Handlers::find(Borrowed<> callable) {
    auto found = handlers_.find(callable.get());
    if (found == handlers_.end() && !waiting_.empty() && add_imported()) found = handlers_.find(callable.get());
    return found == handlers_.end() ? nullptr : found->second;
}

bool Handlers::is_pure(Borrowed<> callable) const {
    if (pure_.contains(callable.get())) return true;
    PyTypeObject* type = Py_TYPE(callable.get());
    if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type)
        return pure_classes_.contains(reinterpret_cast<PyDescrObject*>(callable.get())->d_type);
    if (PyType_Check(callable.get())) return pure_classes_.contains(reinterpret_cast<PyTypeObject*>(callable.get()));
    if (!PyCFunction_Check(callable.get())) return false;
    PyObject* self = PyCFunction_GET_SELF(callable.get());
    if (self == nullptr || PyModule_Check(self)) return false;
    auto* owner = PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
    return pure_classes_.contains(owner);
}

// --- calling for real
// --------------------------------------------------------------------------------------------------

bool ConstantArguments::take(Tracer& tracer, const Arguments& arguments) {
    auto take_one = [&](Value* value) {
        tracer.realize(value);
        if (value->kind == Kind::Constant && runs_program_code(value->object())) return false;
        held_.push_back(value->as_constant(tracer));
        raw_.push_back(held_.back().get());
        return bool(held_.back());
    };
    held_.reserve(arguments.count());
    positional_ = arguments.positional.size();
    for (Value* value : arguments.positional)
        if (!take_one(value)) return false;
    if (arguments.keywords.empty()) return true;
    names_ = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.keywords.size())));
    for (std::size_t i = 0; i < arguments.keywords.size(); ++i) {
        if (!take_one(arguments.keywords[i].value)) return false;
        PyTuple_SET_ITEM(names_.get(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments.keywords[i].name));
    }
    return true;
}

Ref<> ConstantArguments::call(Borrowed<> callable) const {
    return Ref<>::steal(PyObject_Vectorcall(callable, raw_.data(), positional_, names_.get()));
}

Value* fold(Tracer& tracer, Borrowed<> callable, const Arguments& arguments) {
    ConstantArguments constants;
    if (!constants.take(tracer, arguments)) return nullptr;
    Ref<> result = constants.call(callable);
    if (!result) tracer.raise_from_python();
    if (Value* itself = argument_itself(arguments.positional, result.get())) return itself;
    Value* value = tracer.fresh(std::move(result));
    if (value->kind == Kind::Tuple || value->kind == Kind::List) {
        for (Value*& item : static_cast<SequenceValue*>(value)->items)
            if (Value* itself =
                    item->kind == Kind::Constant ? argument_itself(arguments.positional, item->object()) : nullptr)
                item = itself;
    }
    return value;
}

std::vector<Value*> bind_builtin(Tracer& tracer, const char* function, const Arguments& arguments,
                                 std::initializer_list<const char*> names, std::size_t required,
                                 std::size_t positional_only) {
    auto refuse = [&] {
        PyObject* found = builtin_function(function);
        bool is_own =
            found != nullptr && (PyCFunction_Check(found) || found == reinterpret_cast<PyObject*>(&PyEnum_Type));
        Ref<> empty = checked(PyTuple_New(0));
        refuse_arguments(tracer, is_own ? found : nullptr, function, arguments, empty.get());
    };
    std::vector<Value*> bound(names.size(), nullptr);
    if (arguments.positional.size() > names.size()) refuse();
    std::copy(arguments.positional.begin(), arguments.positional.end(), bound.begin());
    for (const Keyword& keyword : arguments.keywords) {
        std::size_t place = 0;
        for (const char* name : names) {
            if (place >= positional_only && PyUnicode_CompareWithASCIIString(keyword.name, name) == 0) break;
            ++place;
        }
        if (place == names.size() || bound[place] != nullptr) refuse();
        bound[place] = keyword.value;
    }
    for (std::size_t place = 0; place < required; ++place)
        if (bound[place] == nullptr) refuse();
    return bound;
}

// --- the value
// ---------------------------------------------------------------------------------------------------------

void BuiltinValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Identity, source, held});
}

Outcome BuiltinValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    Ref<> answer = Ref<>::steal(PyObject_GetAttr(held, name));
    if (!answer) tracer.raise_from_python();
    return tracer.constant(answer.get());
}

namespace {

/// Whether pybind11 created the function: its `__qualname__` starts with `PyCapsule` or another class of pybind11.
bool is_from_pybind11(PyObject* callable) {
    if (!PyCFunction_CheckExact(callable)) return false;
    PyObject* self = PyCFunction_GET_SELF(callable);
    return self != nullptr &&
           (PyCapsule_CheckExact(self) || std::string_view(Py_TYPE(self)->tp_name).starts_with("pybind11"));
}

std::string function_name(PyObject* callable) {
    ErrorAside aside;
    std::string name;
    if (is_from_pybind11(callable)) {
        Ref<> naming = Ref<>::steal(PyImport_ImportModule("stator.naming"));
        Ref<> text = naming ? Ref<>::steal(PyObject_CallMethod(naming.get(), "imported_name", "O", callable)) : Ref<>();
        if (text && PyUnicode_Check(text.get())) return std::string(utf8(text.get()));
        PyErr_Clear();
    }
    for (const char* part : {"__module__", "__qualname__"}) {
        Ref<> text = Ref<>::steal(PyObject_GetAttrString(callable, part));
        if (!text) PyErr_Clear();
        if (text && PyUnicode_Check(text.get())) name += (name.empty() ? "" : ".") + std::string(utf8(text.get()));
    }
    return name.empty() ? short_repr(callable) : name;
}

bool is_method_descriptor(PyObject* callable) {
    return Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type;
}

/// A method of the tensor class called on the class: `torch.Tensor.add(x, y)`.
bool is_tensor_method(PyObject* callable) {
    if (!is_method_descriptor(callable)) return false;
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable)->d_type;
    return owner != &PyBaseObject_Type && PyType_IsSubtype(torch_room::known().tensor_class, owner);
}

/// Whether PyTorch calls `__torch_function__` for a call of this function.
bool is_operation(PyObject* callable) {
    if (is_tensor_method(callable) || torch_room::role_of(callable) == torch_room::Role::InGraph) return true;
    static PyObject* const functions = imported("torch._C", "_VariableFunctions");
    return PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) != nullptr &&
           PyCFunction_GET_SELF(callable) == functions;
}

}  // namespace

namespace {

/// `object.__get__` and the like, which the program has bound before: the slot wrapper is called with that object.
Outcome call_bound_wrapper(Tracer& tracer, PyObject* wrapper, const Arguments& arguments) {
    Ref<> self = checked(PyObject_GetAttrString(wrapper, "__self__"));
    Ref<> name = checked(PyObject_GetAttrString(wrapper, "__name__"));
    PyObject* found = cpython::lookup_in_mro(Py_TYPE(self.get()), name.get(), nullptr);
    if (found == nullptr || Py_TYPE(found) != &PyWrapperDescr_Type)
        tracer.break_graph(BreakKind::UnknownFunction, "the C function " + function_name(wrapper) + " is called");
    return operations::call(tracer, tracer.constant(found), arguments.after(tracer.constant(self.get())));
}

}  // namespace

Outcome BuiltinValue::call(Tracer& tracer, const Arguments& arguments) {
    if (tracer.modes().has_function_modes() && (is_operation(held) || held == torch_room::known().set_grad_enabled))
        if (auto answer = call_under_modes(tracer, this, arguments)) return *answer;
    if (Py_TYPE(held) == cpython::method_wrapper_class())
        if (auto read = read_by_getter(tracer, held, arguments)) return *read;
    if (has_tensor_object(arguments)) {
        if (is_operation(held)) return call_on_tensor_objects(tracer, this, arguments);
    }
    if (is_array_function(held) && has_array(arguments))
        if (Value* answer = call_array_function(tracer, held, arguments)) return answer;
    Handlers& handlers = Handlers::instance();
    if (Handler handler = handlers.find(held); handler != nullptr) {
        if (needs_settling(tracer, held, arguments)) return call_settled(tracer, handler, arguments);
        return handler(tracer, arguments);
    }
    torch_room::Role role = torch_room::role_of(held);
    if (role == torch_room::Role::InGraph) return tracer.recorder().emit_function(held, arguments);
    if (role == torch_room::Role::Disallowed)
        tracer.break_graph(BreakKind::GraphBreakCall, function_name(held) + " is marked disallow_in_graph");
    if (is_tensor_method(held) && !arguments.positional.empty() && arguments.positional[0]->kind == Kind::Tensor)
        return tracer.recorder().emit_method(reinterpret_cast<PyDescrObject*>(held)->d_name, arguments);
    if (is_numpy_function(held))
        if (Value* folded = call_numpy_function(tracer, held, arguments); folded != nullptr) return folded;
    if (handlers.is_pure(held)) {
        // Methods of int or str read only the value of the builtin class.
        bool of_scalar = !arguments.positional.empty() && arguments.positional[0]->kind == Kind::Scalar;
        of_scalar = of_scalar && is_method_descriptor(held);
        if (of_scalar) {
            Arguments plain = arguments;
            plain.positional[0] = unwrapped(tracer, plain.positional[0]);
            if (Value* folded = fold(tracer, held, plain); folded != nullptr) return folded;
        } else if (Value* folded = fold(tracer, held, arguments); folded != nullptr) {
            return folded;
        }
    }
    if (Py_TYPE(held) == cpython::method_wrapper_class()) return call_bound_wrapper(tracer, held, arguments);
    if (is_array_function(held))
        if (Value* answer = call_array_function(tracer, held, arguments)) return answer;
    if (Ref<> substitute = substitute_of(held)) {
        PyObject* function = tracer.keep(std::move(substitute));
        return operations::call(tracer, tracer.outside(tracer.provenance().pinned(function), function), arguments);
    }
    tracer.break_graph(BreakKind::UnknownFunction, "the C function " + function_name(held) + " is called");
}

Outcome BuiltinValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (other->kind != Kind::Builtin || (op != Comparison::Equal && op != Comparison::NotEqual)) return nullptr;
    int equal = PyObject_RichCompareBool(held, other->object(), Py_EQ);
    if (equal < 0) tracer.raise_from_python();
    return tracer.boolean((equal == 1) == (op == Comparison::Equal));
}

Py_hash_t BuiltinValue::hash(Tracer& tracer) {
    Py_hash_t hash = PyObject_Hash(held);
    if (hash == -1 && PyErr_Occurred() != nullptr) tracer.raise_from_python();
    return hash;
}

graph::Argument BuiltinValue::as_argument(Tracer&) {
    return graph::Argument::of_constant(held);
}

int BuiltinValue::rebuild(PlanBuilder& plan) {
    return rebuild_identical(plan, this, held);
}

std::string BuiltinValue::print() const {
    return function_name(held);
}

}  // namespace stator
