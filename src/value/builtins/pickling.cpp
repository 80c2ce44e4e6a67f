/// `pickle.dumps` of containers of constants, with which libraries make keys of arguments.
#include <string_view>
#include <unordered_set>

#include "base/imported.h"
#include "base/text.h"
#include "value/builtins/registry.h"
#include "value/kinds/constant.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// Texts that were seen already: pickle refers to the first if both are one object, which no guard compares.
using Texts = std::unordered_set<std::string_view>;

bool is_plain(PyObject* object, Texts& seen) {
    if (PyUnicode_CheckExact(object)) return seen.insert(utf8(object)).second;
    return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object);
}

/// Whether the text of a pickle depends on the values of these constants alone. (Inner containers may be one object.)
bool is_plain_container(PyObject* object) {
    Texts seen;
    if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
            if (!is_plain(PySequence_Fast_GET_ITEM(object, i), seen)) return false;
        return true;
    }
    if (!PyDict_CheckExact(object)) return is_plain(object, seen);
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value);)
        if (!is_plain(key, seen) || !is_plain(value, seen)) return false;
    return true;
}

Outcome dumps(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("_pickle", "dumps");
    const bool is_usual = arguments.positional.size() == 1 && arguments.keywords.empty();
    if (is_usual) tracer.realize(arguments.positional[0]);
    Ref<> constant = is_usual ? arguments.positional[0]->as_constant(tracer) : Ref<>();
    if (!constant || !is_plain_container(constant.get()))
        tracer.break_graph(BreakKind::UnknownFunction,
                           "pickle.dumps is called with something other than numbers and different texts");
    Ref<> text = Ref<>::steal(PyObject_CallOneArg(function, constant.get()));
    if (!text) tracer.raise_from_python();
    return tracer.fresh(std::move(text));
}

}  // namespace

void register_pickling(Handlers& handlers) {
    handlers.add("_pickle", "dumps", dumps);
}

}  // namespace stator
