#include "torch/operation_effects.h"

#include "base/boundary.h"
#include "base/imported.h"
#include "base/text.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

Ref<> attribute(PyObject* object, const char* name) {
    return checked(PyObject_GetAttrString(object, name));
}

void note_written(OperationEffects& effects, PyObject* value) {
    if (PyList_Check(value) || PyTuple_Check(value)) {
        Ref<> items = checked(PySequence_Fast(value, "a sequence"));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
            note_written(effects, PySequence_Fast_GET_ITEM(items.get(), i));
        return;
    }
    if (is_tensor(value)) effects.written.push_back(storage_identity(value));
}

/// Goes over the arguments that the schema marks as written to.
void note_writes(OperationEffects& effects, PyObject* schema, PyObject* args, PyObject* kwargs) {
    Ref<> arguments = attribute(schema, "arguments");
    Ref<> fast = checked(PySequence_Fast(arguments.get(), "arguments"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
        PyObject* argument = PySequence_Fast_GET_ITEM(fast.get(), i);
        Ref<> alias = attribute(argument, "alias_info");
        if (alias.get() == Py_None) continue;
        Ref<> is_write = attribute(alias.get(), "is_write");
        if (is_write.get() != Py_True) continue;
        PyObject* value = i < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, i) : nullptr;
        if (value == nullptr && kwargs != nullptr) {
            Ref<> name = attribute(argument, "name");
            value = PyDict_GetItemWithError(kwargs, name.get());
        }
        if (value != nullptr) note_written(effects, value);
    }
}

PyObject* seeded_tag() {
    static PyObject* const tag = imported("torch", "Tag.nondeterministic_seeded");
    return tag;
}

/// Whether an operation without results only raises for some data.
bool only_checks(PyObject* schema) {
    Ref<> name = attribute(schema, "name");
    std::string_view text = utf8(name.get());
    return text == "aten::_linalg_check_errors" || text.starts_with("aten::_assert");
}

void note(OperationEffects& effects, PyObject* function, PyObject* args, PyObject* kwargs) {
    Ref<> schema = attribute(function, "_schema");
    Ref<> is_mutable = attribute(schema.get(), "is_mutable");
    if (is_mutable.get() == Py_True) note_writes(effects, schema.get(), args, kwargs);
    Ref<> tags = attribute(function, "tags");
    if (checked(PySequence_Contains(tags.get(), seeded_tag()))) effects.random = true;
    Ref<> returns = attribute(schema.get(), "returns");
    if (is_mutable.get() != Py_True && checked(static_cast<int>(PyObject_Length(returns.get()))) == 0)
        effects.side_effect |= !only_checks(schema.get());
}

/// A leaf function (torch/leaf_functions.h) declares the arguments that it writes to, and may have other side effects.
void note_leaf_function(OperationEffects& effects, PyObject* args) {
    constexpr Py_ssize_t kFirst = 4;  // after the functions, the structure of the arguments, and the positions
    effects.side_effect = true;
    if (PyTuple_GET_SIZE(args) < kFirst) return;
    Ref<> written = checked(PyObject_CallMethod(PyTuple_GET_ITEM(args, kFirst - 1), "split", "s", ","));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(written.get()); ++i) {
        PyObject* const position = PyList_GET_ITEM(written.get(), i);
        if (PyUnicode_GET_LENGTH(position) == 0) continue;
        const Py_ssize_t at = kFirst + PyLong_AsSsize_t(checked(PyLong_FromUnicodeObject(position, 10)).get());
        if (at < PyTuple_GET_SIZE(args)) note_written(effects, PyTuple_GET_ITEM(args, at));
    }
}

bool is_higher_order(PyObject* function) {
    static PyObject* const type = imported("torch._ops", "HigherOrderOperator");
    return checked(PyObject_IsInstance(function, type)) == 1;
}

/// Of the operations that run functions this is the only one that may be part of another operation.
void note_higher_order(OperationEffects& effects, PyObject* function, PyObject* args) {
    Ref<> name = attribute(function, "_name");
    if (utf8(name.get()) == "invoke_leaf_function") return note_leaf_function(effects, args);
    PyErr_Format(PyExc_NotImplementedError, "the effects of the higher-order operation %U are not known", name.get());
    throw PythonError();
}

/// The class of a dispatch mode that notes the effects of operations: an instance points to where it notes them. An
/// operation that the fake kernels call meanwhile does not come here: a dispatch mode is off while it handles one.
PyTypeObject* observer_class();

/// Behind the members of the base class.
OperationEffects*& effects_of(PyObject* observer) {
    Py_ssize_t offset = observer_class()->tp_basicsize - static_cast<Py_ssize_t>(sizeof(OperationEffects*));
    return *reinterpret_cast<OperationEffects**>(reinterpret_cast<char*>(observer) + offset);
}

PyObject* torch_dispatch(PyObject* self, PyObject* arguments) {
    PyObject *function, *types, *args = nullptr, *kwargs = nullptr;
    if (!PyArg_ParseTuple(arguments, "OO|OO", &function, &types, &args, &kwargs)) return nullptr;
    if (kwargs == Py_None) kwargs = nullptr;
    return at_boundary([&] {
        Ref<> no_arguments;
        if (args == nullptr) {
            no_arguments = checked(PyTuple_New(0));
            args = no_arguments.get();
        }
        if (OperationEffects* effects = effects_of(self))
            is_higher_order(function) ? note_higher_order(*effects, function, args)
                                      : note(*effects, function, args, kwargs);
        return PyObject_Call(function, args, kwargs);
    });
}

PyMethodDef kMethods[] = {{"__torch_dispatch__", torch_dispatch, METH_VARARGS, nullptr}, {}};
PyType_Slot kSlots[] = {{Py_tp_methods, kMethods}, {}};

PyTypeObject* observer_class() {
    static auto* const type = [] {
        auto* base = imported_class("torch.utils._python_dispatch", "TorchDispatchMode");
        PyType_Spec spec = {"stator._C.OperationObserver",
                            static_cast<int>(base->tp_basicsize + static_cast<Py_ssize_t>(sizeof(OperationEffects*))),
                            0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kSlots};
        Ref<> made = checked(PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(base)));
        checked(PyObject_SetAttrString(made.get(), "supports_higher_order_operators", Py_True));
        return made.release();
    }();
    return reinterpret_cast<PyTypeObject*>(type);
}

void enter(PyObject* mode) {
    checked(PyObject_CallMethod(mode, "__enter__", nullptr));
}

void exit(PyObject* mode) {
    Ref<> done = Ref<>::steal(PyObject_CallMethod(mode, "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!done) PyErr_WriteUnraisable(mode);
}

}  // namespace

EffectsUnderFakeMode::EffectsUnderFakeMode(Borrowed<> fake_mode) : fake_mode_(Ref<>::share(fake_mode)) {
    Ref<> observer = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(observer_class())));
    effects_of(observer.get()) = &effects_;
    enter(fake_mode);
    try {
        enter(observer.get());
    } catch (const PythonError&) {
        ErrorAside aside;
        exit(fake_mode);
        throw;
    }
    observer_ = std::move(observer);
}

EffectsUnderFakeMode::~EffectsUnderFakeMode() {
    ErrorAside aside;
    effects_of(observer_.get()) = nullptr;
    exit(observer_.get());
    exit(fake_mode_.get());
}

}  // namespace stator::torch_room
