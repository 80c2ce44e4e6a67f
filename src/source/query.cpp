#include "source/query.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator {

namespace {

struct Query {
    PyObject_HEAD;
    PyObject* function;
    PyObject* argument;  // null if the function takes none
};

Query* as_query(PyObject* object) {
    return reinterpret_cast<Query*>(object);
}

PyObject* answer_of(PyObject* self, void*) {
    const Query* query = as_query(self);
    return query->argument == nullptr ? PyObject_CallNoArgs(query->function)
                                      : PyObject_CallOneArg(query->function, query->argument);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as_query(self)->function);
    Py_VISIT(as_query(self)->argument);
    return 0;
}

int clear(PyObject* self) {
    Py_CLEAR(as_query(self)->function);
    Py_CLEAR(as_query(self)->argument);
    return 0;
}

void deallocate(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/// As guards are printed.
PyObject* represent(PyObject* self) {
    const Query* query = as_query(self);
    if (query->argument == nullptr) return PyUnicode_FromFormat("%R", query->function);
    return PyUnicode_FromFormat("%R of %R", query->function, query->argument);
}

PyTypeObject* query_class() {
    static PyGetSetDef attributes[] = {{"answer", answer_of, nullptr, nullptr, nullptr}, {}};
    static PyType_Slot slots[] = {{Py_tp_getset, attributes},
                                  {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                  {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                  {Py_tp_repr, reinterpret_cast<void*>(represent)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"stator.Query", sizeof(Query), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    static auto* const type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release());
    return type;
}

}  // namespace

namespace {

Ref<> make_query(Borrowed<> function, Borrowed<> argument) {
    Ref<> object = checked(query_class()->tp_alloc(query_class(), 0));
    as_query(object.get())->function = Py_NewRef(function.get());
    as_query(object.get())->argument = Py_XNewRef(argument.get());
    return object;
}

Source* place_of_answer(Provenance& provenance, const Ref<>& query, Borrowed<> answer) {
    return provenance.child(provenance.pinned(query.get()), Access::Member, interned("answer"), 0, answer.get());
}

}  // namespace

Answer ask(Provenance& provenance, Borrowed<> function, Borrowed<> argument) {
    Ref<> object = make_query(function, argument);
    Ref<> answer = Ref<>::steal(answer_of(object.get(), nullptr));
    if (!answer) PyErr_Clear();
    Source* place = place_of_answer(provenance, object, answer.get());
    return {place, std::move(answer)};
}

Source* query(Provenance& provenance, Borrowed<> function, Borrowed<> argument, Borrowed<> answer) {
    return place_of_answer(provenance, make_query(function, argument), answer);
}

}  // namespace stator
