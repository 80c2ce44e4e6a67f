#include "graph/preparable.h"

#include <algorithm>
#include <string_view>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator::graph {

namespace {

/// The text of a `str` attribute; empty if there is none.
std::string text_of_attribute(Borrowed<> object, const char* name) {
    Ref<> value = Ref<>::steal(PyObject_GetAttrString(object.get(), name));
    if (!value) PyErr_Clear();
    return value && PyUnicode_Check(value.get()) ? std::string(utf8(value.get())) : std::string();
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
}

/// These read data of Python objects, or do more than to call operators.
bool is_more_than_a_call(std::string_view name) {
    return is_one_of(
        name, {"tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_file", "new", "new_tensor", "apply_",
               "map_", "map2_", "type", "set_", "record_stream", "_make_subclass"});
}

Preparable preparable_builtin(Borrowed<> target) {
    const std::string module = text_of_attribute(target, "__module__");
    const std::string name = text_of_attribute(target, "__name__");
    if (module == "_operator")
        return is_one_of(name, {"getitem", "setitem"}) ? Preparable::Indexing : Preparable::Binding;
    if (is_more_than_a_call(name)) return Preparable::No;
    const bool is_static = PyCFunction_GET_SELF(target.get()) == nullptr;
    if (module == "torch" && is_static) return Preparable::Binding;
    const bool has_operators =
        is_one_of(module, {"torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special"});
    return has_operators ? Preparable::Binding : Preparable::No;
}

Preparable preparable_function(Borrowed<> target) {
    const std::string module = text_of_attribute(target, "__module__");
    const std::string name = text_of_attribute(target, "__name__");
    if (!is_one_of(module, {"torch.nn.functional", "torch.functional"})) return Preparable::No;
    if (name == "einsum") return Preparable::Products;
    if (name == "embedding") return Preparable::Embedding;
    const bool only_forwards =
        is_one_of(name, {"softmax",    "log_softmax", "layer_norm", "rms_norm",      "dropout",    "relu",
                         "relu6",      "elu",         "celu",       "selu",          "silu",       "mish",
                         "leaky_relu", "hardtanh",    "hardswish",  "hardsigmoid",   "glu",        "softmin",
                         "softsign",   "tanhshrink",  "threshold",  "cross_entropy", "nll_loss",   "normalize",
                         "norm",       "pad",         "split",      "max_pool1d",    "max_pool2d", "max_pool3d"});
    return only_forwards ? Preparable::Forwarding : Preparable::Function;
}

/// A method of tensors. Most are bindings; of those in Python only some are nothing but calls.
Preparable preparable_method(Borrowed<> name) {
    static PyObject* const tensor = imported("torch", "Tensor");
    const std::string_view text = utf8(name);
    if (is_more_than_a_call(text)) return Preparable::No;
    Ref<> method = Ref<>::steal(PyObject_GetAttr(tensor, name.get()));
    if (!method) {
        PyErr_Clear();
        return Preparable::No;
    }
    if (is_one_of(text, {"__getitem__", "__setitem__"})) return Preparable::Indexing;
    if (Py_IS_TYPE(method.get(), &PyMethodDescr_Type)) return Preparable::Binding;
    if (text_of_attribute(method.get(), "__module__") != "torch._tensor") return Preparable::No;
    if (is_one_of(text, {"split", "norm", "unflatten"})) return Preparable::Forwarding;
    return is_one_of(text, {"__rsub__", "__rtruediv__", "__rpow__"}) ? Preparable::Function : Preparable::No;
}

/// Of all threads: read under the interpreter's lock.
std::size_t warnings_given = 0;
int counts_alive = 0;
Ref<> original_warn;

PyObject* warn(PyObject* original, PyObject* args, PyObject* keywords) {
    ++warnings_given;
    return PyObject_Call(original, args, keywords);
}

PyMethodDef kWarn = {"warn", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(warn)),
                     METH_VARARGS | METH_KEYWORDS, nullptr};

PyObject* warnings_module() {
    static PyObject* const module = checked(PyImport_ImportModule("warnings")).release();
    return module;
}

}  // namespace

Preparable preparable(NodeKind kind, Borrowed<> target) {
    if (kind == NodeKind::Method) return preparable_method(target);
    if (kind != NodeKind::Function) return Preparable::No;
    if (Py_IS_TYPE(target.get(), &PyCFunction_Type)) return preparable_builtin(target);
    return PyFunction_Check(target.get()) ? preparable_function(target) : Preparable::No;
}

bool is_plain_constant(Borrowed<> constant) {
    PyObject* const object = constant.get();
    if (object == Py_None || object == Py_Ellipsis || PyBool_Check(object) || PyLong_CheckExact(object) ||
        PyFloat_CheckExact(object) || PyComplex_CheckExact(object) || PyUnicode_CheckExact(object))
        return true;
    if (PySlice_Check(object)) {
        auto* slice = reinterpret_cast<PySliceObject*>(object);
        return is_plain_constant(slice->start) && is_plain_constant(slice->stop) && is_plain_constant(slice->step);
    }
    const std::string_view type = Py_TYPE(object)->tp_name;
    if (PyTuple_CheckExact(object) || PyList_CheckExact(object) || type == "torch.Size") {
        PyObject** const items = PySequence_Fast_ITEMS(object);
        return std::all_of(items, items + Py_SIZE(object), [](PyObject* item) { return is_plain_constant(item); });
    }
    return is_one_of(type, {"torch.dtype", "torch.device", "torch.layout", "torch.memory_format"});
}

namespace {

bool is_int_or_none(PyObject* object) {
    return object == Py_None || PyLong_CheckExact(object);
}

bool is_number(PyObject* object, long number) {
    int overflow = 0;
    return PyLong_CheckExact(object) && PyLong_AsLongAndOverflow(object, &overflow) == number && overflow == 0;
}

/// Among other indices PyTorch leaves a slice out that is the whole dimension.
bool slices_alike(const PySliceObject& slice, bool is_alone) {
    if (!is_int_or_none(slice.start) || !is_int_or_none(slice.stop) || !is_int_or_none(slice.step)) return false;
    const bool is_prefix =
        (slice.start == Py_None || is_number(slice.start, 0)) && (slice.step == Py_None || is_number(slice.step, 1));
    if (is_alone || !is_prefix || slice.stop == Py_None) return true;
    int overflow = 0;
    return PyLong_AsLongAndOverflow(slice.stop, &overflow) < 0 && overflow <= 0;
}

bool indexes_alike(PyObject* index, bool is_alone) {
    if (PySlice_Check(index)) return slices_alike(*reinterpret_cast<PySliceObject*>(index), is_alone);
    return index == Py_None || index == Py_Ellipsis || PyLong_CheckExact(index);
}

}  // namespace

bool makes_same_views(Borrowed<> key) {
    if (!PyTuple_CheckExact(key.get())) return indexes_alike(key.get(), true);
    PyObject** const items = PySequence_Fast_ITEMS(key.get());
    return std::all_of(items, items + Py_SIZE(key.get()), [](PyObject* item) { return indexes_alike(item, false); });
}

WarningCount::WarningCount() : before_(warnings_given) {
    if (counts_alive++ > 0) return;
    original_warn = checked(PyObject_GetAttrString(warnings_module(), "warn"));
    // A function in C adds no frame, so that warnings are attributed to the same lines.
    Ref<> counting = checked(PyCFunction_New(&kWarn, original_warn.get()));
    checked(PyObject_SetAttrString(warnings_module(), "warn", counting.get()));
}

WarningCount::~WarningCount() {
    if (--counts_alive > 0) return;
    ErrorAside aside;
    if (PyObject_SetAttrString(warnings_module(), "warn", original_warn.get()) < 0) PyErr_Clear();
    original_warn = nullptr;
}

bool WarningCount::any() const {
    return warnings_given != before_;
}

}  // namespace stator::graph
