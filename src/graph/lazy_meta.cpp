#include "graph/lazy_meta.h"

#include <vector>

#include "base/boundary.h"
#include "cpython/objects.h"
#include "graph/captured.h"

namespace stator::graph {

namespace {

struct LazyMeta {
    PyDictObject dict;
    PyObject* captured;  // owned; null when all values are created
    const Node* node;
    bool is_touched;
};

PyTypeObject* lazy_meta_type();
bool is_lazy(PyObject* object) {
    return Py_IS_TYPE(object, lazy_meta_type());
}
LazyMeta* lazy(PyObject* object) {
    return reinterpret_cast<LazyMeta*>(object);
}

/// Placeholder in the dict for a value that was not created yet.
PyObject* pending() {
    static PyObject* object = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    return object;
}

/// Inserts the keys.
bool touch(PyObject* self) {
    LazyMeta* meta = lazy(self);
    if (meta->is_touched || meta->captured == nullptr) return true;
    meta->is_touched = true;
    const Captured& captured = *captured_of(meta->captured);
    for (Fact fact : kFacts)
        if (captured.has(*meta->node, fact) && PyDict_SetItem(self, fact_key(fact), pending()) < 0) return false;
    return meta->node->extra_meta == nullptr || PyDict_Update(self, meta->node->extra_meta) == 0;
}

bool make(PyObject* self, Fact fact) {
    LazyMeta* meta = lazy(self);
    // Creating a value runs Python, and after the last one the graph is released.
    Ref<> captured = Ref<>::share(meta->captured);
    Ref<> value = Ref<>::steal(at_boundary([&] { return captured_of(captured)->fact(*meta->node, fact); }));
    if (!value) return false;
    if (PyDict_GetItemWithError(self, fact_key(fact)) != pending()) return !PyErr_Occurred();
    return PyDict_SetItem(self, fact_key(fact), value.get()) == 0;
}

/// Creates the value of one key, if it is pending.
bool make_value(PyObject* self, PyObject* key) {
    if (!touch(self)) return false;
    if (lazy(self)->captured == nullptr) return true;
    if (PyObject_Hash(key) == -1) return false;
    PyObject* value = PyDict_GetItemWithError(self, key);
    if (value != pending()) return !PyErr_Occurred();
    for (Fact fact : kFacts) {
        int is_same = PyObject_RichCompareBool(key, fact_key(fact), Py_EQ);
        if (is_same < 0) return false;
        if (is_same) return make(self, fact);
    }
    return true;
}

bool make_all(PyObject* self) {
    if (!touch(self)) return false;
    if (lazy(self)->captured == nullptr) return true;
    for (Fact fact : kFacts) {
        PyObject* value = PyDict_GetItemWithError(self, fact_key(fact));
        if (value == nullptr && PyErr_Occurred()) return false;
        if (value == pending() && !make(self, fact)) return false;
    }
    Py_CLEAR(lazy(self)->captured);
    return true;
}

// The rest is the interface of `dict`: create values, then call the method of `dict`.

/// The method of `dict` itself.
PyObject* base_method(const char* name) {
    return PyDict_GetItemString(cpython::class_dict(&PyDict_Type), name);
}

PyObject* call_base(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names)));
    return PyObject_Vectorcall(base_method(name), all.data(), static_cast<std::size_t>(count) + 1, names);
}

struct Name {
    char text[16];
};

template <Name name>
PyObject* after_touch(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return touch(self) ? call_base(name.text, self, args, count, names) : nullptr;
}

template <Name name>
PyObject* after_make_value(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    if (!(count > 0 ? make_value(self, args[0]) : touch(self))) return nullptr;
    return call_base(name.text, self, args, count, names);
}

template <Name name>
PyObject* after_make_all(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return make_all(self) ? call_base(name.text, self, args, count, names) : nullptr;
}

PyObject* plain_copy(PyObject* self) {
    if (!make_all(self)) return nullptr;
    return PyDict_Copy(self);
}

/// A copy that is as lazy as the original; both see the same objects.
PyObject* copy(PyObject* self, PyObject*) {
    if (!touch(self)) return nullptr;
    if (lazy(self)->captured == nullptr) return PyDict_Copy(self);
    return at_boundary([&] {
        Ref<> copied = make_lazy_meta(lazy(self)->captured, *lazy(self)->node);
        lazy(copied.get())->is_touched = true;
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(self, &position, &key, &value);)
            checked(PyDict_SetItem(copied.get(), key, value));
        return copied;
    });
}

PyObject* deep_copy(PyObject* self, PyObject* memo) {
    Ref<> plain = Ref<>::steal(plain_copy(self));
    Ref<> module = plain ? Ref<>::steal(PyImport_ImportModule("copy")) : Ref<>();
    return module ? PyObject_CallMethod(module.get(), "deepcopy", "OO", plain.get(), memo) : nullptr;
}

PyObject* reduce(PyObject* self, PyObject*) {
    Ref<> plain = Ref<>::steal(plain_copy(self));
    return plain ? Py_BuildValue("(O(O))", &PyDict_Type, plain.get()) : nullptr;
}

PyObject* subscript(PyObject* self, PyObject* key) {
    return make_value(self, key) ? PyDict_Type.tp_as_mapping->mp_subscript(self, key) : nullptr;
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
    return touch(self) ? PyDict_Type.tp_as_mapping->mp_ass_subscript(self, key, value) : -1;
}

Py_ssize_t length(PyObject* self) {
    return touch(self) ? PyDict_Type.tp_as_mapping->mp_length(self) : -1;
}

int contains(PyObject* self, PyObject* key) {
    return touch(self) ? PyDict_Contains(self, key) : -1;
}

/// Its own function, so that `dict.update` and `{**meta}` go through `keys` and `[]` instead of the table.
PyObject* iterate(PyObject* self) {
    return touch(self) ? PyDict_Type.tp_iter(self) : nullptr;
}

PyObject* repr(PyObject* self) {
    return make_all(self) ? PyDict_Type.tp_repr(self) : nullptr;
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
    if (!make_all(self) || (is_lazy(other) && !make_all(other))) return nullptr;
    return PyDict_Type.tp_richcompare(self, other, operation);
}

PyObject* merged(PyObject* left, PyObject* right) {
    if ((is_lazy(left) && !make_all(left)) || (is_lazy(right) && !make_all(right))) return nullptr;
    return PyDict_Type.tp_as_number->nb_or(left, right);
}

PyObject* merge_in_place(PyObject* self, PyObject* other) {
    return touch(self) ? PyDict_Type.tp_as_number->nb_inplace_or(self, other) : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(lazy(self)->captured);
    return PyDict_Type.tp_traverse(self, visit, arg);
}

int clear(PyObject* self) {
    Py_CLEAR(lazy(self)->captured);
    return PyDict_Type.tp_clear(self);
}

void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(lazy(self)->captured);
    PyDict_Type.tp_dealloc(self);
}

template <class Function>
PyCFunction method(Function function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef kMethods[] = {
    {"get", method(after_make_value<Name{"get"}>), kFast, nullptr},
    {"pop", method(after_make_value<Name{"pop"}>), kFast, nullptr},
    {"setdefault", method(after_make_value<Name{"setdefault"}>), kFast, nullptr},
    {"keys", method(after_touch<Name{"keys"}>), kFast, nullptr},
    {"update", method(after_touch<Name{"update"}>), kFast, nullptr},
    {"clear", method(after_touch<Name{"clear"}>), kFast, nullptr},
    {"__reversed__", method(after_touch<Name{"__reversed__"}>), kFast, nullptr},
    {"items", method(after_make_all<Name{"items"}>), kFast, nullptr},
    {"values", method(after_make_all<Name{"values"}>), kFast, nullptr},
    {"popitem", method(after_make_all<Name{"popitem"}>), kFast, nullptr},
    {"copy", copy, METH_NOARGS, nullptr},
    {"__copy__", copy, METH_NOARGS, nullptr},
    {"__deepcopy__", deep_copy, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__reduce_ex__", reduce, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMappingMethods kMapping = {.mp_length = length, .mp_subscript = subscript, .mp_ass_subscript = assign_subscript};
PySequenceMethods kSequence = {.sq_contains = contains};
PyNumberMethods kNumber = {.nb_or = merged, .nb_inplace_or = merge_in_place};

PyTypeObject kLazyMetaType = {
    .ob_base = {PyObject_HEAD_INIT(nullptr) 0},
    .tp_name = "stator._C.LazyMeta",
    .tp_basicsize = sizeof(LazyMeta),
    .tp_dealloc = dealloc,
    .tp_repr = repr,
    .tp_as_number = &kNumber,
    .tp_as_sequence = &kSequence,
    .tp_as_mapping = &kMapping,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The meta of a torch.fx node, filled when it is read.",
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_richcompare = compare,
    .tp_iter = iterate,
    .tp_methods = kMethods,
    .tp_base = &PyDict_Type,
};

PyTypeObject* lazy_meta_type() {
    return &kLazyMetaType;
}

}  // namespace

Ref<> make_lazy_meta(Borrowed<> captured, const Node& node) {
    static PyObject* no_arguments = PyTuple_New(0);
    Ref<> self = checked(PyDict_Type.tp_new(&kLazyMetaType, no_arguments, nullptr));
    lazy(self.get())->captured = Py_NewRef(captured);
    lazy(self.get())->node = &node;
    return self;
}

bool add_lazy_meta_type(PyObject* module) {
    return PyModule_AddType(module, &kLazyMetaType) == 0;
}

}  // namespace stator::graph
