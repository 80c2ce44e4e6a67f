#include "value/protocol/str_format.h"

#include <string>
#include <vector>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/protocol/operations.h"
#include "value/protocol/text.h"

namespace stator {

namespace {

/// `{}` is numbered automatically, `{0}` is not; a format can't mix them.
struct Numbering {
    std::size_t next = 0;
    bool counts = false;
    bool is_explicit = false;
};

struct Field {
    Ref<> literal, name, specification, conversion;  // the last three are None at the end of the text
};

struct Step {
    bool is_attribute;
    Ref<> key;
};

Ref<> part(const Ref<>& tuple, Py_ssize_t index) {
    return Ref<>::share(PyTuple_GET_ITEM(tuple.get(), index));
}

std::vector<Field> parse(Tracer& tracer, PyObject* format) {
    static PyObject* const parse_format = imported("_string", "formatter_parser");
    Ref<> iterator = Ref<>::steal(PyObject_CallOneArg(parse_format, format));
    if (!iterator) tracer.raise_from_python();
    std::vector<Field> fields;
    while (Ref<> item = Ref<>::steal(PyIter_Next(iterator.get())))
        fields.push_back({part(item, 0), part(item, 1), part(item, 2), part(item, 3)});
    if (PyErr_Occurred() != nullptr) tracer.raise_from_python();
    return fields;
}

/// The first part of a field's name, and the attributes and items after it.
Ref<> split(Tracer& tracer, PyObject* name, std::vector<Step>& steps) {
    static PyObject* const split_name = imported("_string", "formatter_field_name_split");
    Ref<> parts = Ref<>::steal(PyObject_CallOneArg(split_name, name));
    if (!parts) tracer.raise_from_python();
    Ref<> rest = part(parts, 1);
    while (Ref<> item = Ref<>::steal(PyIter_Next(rest.get())))
        steps.push_back({PyTuple_GET_ITEM(item.get(), 0) == Py_True, part(item, 1)});
    if (PyErr_Occurred() != nullptr) tracer.raise_from_python();
    return part(parts, 0);
}

Value* first_value(Tracer& tracer, const Arguments& values, PyObject* first, Numbering& numbering) {
    std::size_t index = 0;
    bool is_empty = PyUnicode_Check(first) && PyUnicode_GET_LENGTH(first) == 0;
    if (is_empty || PyLong_Check(first)) {
        (is_empty ? numbering.counts : numbering.is_explicit) = true;
        if (numbering.counts && numbering.is_explicit)
            tracer.raise(PyExc_ValueError, is_empty
                                               ? "cannot switch from manual field specification to automatic field "
                                                 "numbering"
                                               : "cannot switch from automatic field numbering to manual field "
                                                 "specification");
        index = is_empty ? numbering.next++ : PyLong_AsSize_t(first);
        if (index >= values.positional.size())
            tracer.raise(PyExc_IndexError,
                         "Replacement index " + std::to_string(index) + " out of range for positional args tuple");
        return values.positional[index];
    }
    for (const Keyword& keyword : values.keywords)
        if (PyUnicode_Compare(keyword.name, first) == 0) return keyword.value;
    PyErr_SetObject(PyExc_KeyError, first);
    tracer.raise_from_python();
}

Task format_all(Tracer& tracer, PyObject* format, const Arguments* values, Numbering* numbering, int depth) {
    if (depth > 2) tracer.raise(PyExc_ValueError, "Max string recursion exceeded");
    std::string text;
    std::vector<Field> fields = parse(tracer, format);
    for (std::size_t i = 0; i < fields.size(); ++i) {
        text += utf8(fields[i].literal.get());
        if (fields[i].name.get() == Py_None) continue;
        std::vector<Step> steps;
        Ref<> first = split(tracer, fields[i].name.get(), steps);
        Value* value = first_value(tracer, *values, first.get(), *numbering);
        for (std::size_t j = 0; j < steps.size(); ++j) {
            if (steps[j].is_attribute) {
                PyObject* attribute = steps[j].key.release();
                PyUnicode_InternInPlace(&attribute);
                value = co_await operations::get_attribute(tracer, value, tracer.keep(Ref<>::steal(attribute)));
            } else {
                value = co_await operations::get_item(tracer, value, tracer.constant(steps[j].key.get()));
            }
        }
        if (fields[i].conversion.get() != Py_None) {
            std::string_view conversion = utf8(fields[i].conversion.get());
            if (conversion == "r")
                value = co_await repr_of(tracer, value);
            else if (conversion == "s")
                value = co_await str_of(tracer, value);
            else
                tracer.break_graph(BreakKind::UnknownObject,
                                   "a field of a format has the conversion !" + std::string(conversion));
        }
        Value* specification =
            co_await tracer.start(format_all(tracer, fields[i].specification.get(), values, numbering, depth + 1));
        Value* formatted = co_await format_of(tracer, value, specification);
        tracer.realize(formatted);
        if (formatted->object() == nullptr || !PyUnicode_Check(formatted->object()))
            tracer.raise(PyExc_TypeError,
                         "__format__ must return a str, not " + std::string(formatted->type()->tp_name));
        text += utf8(formatted->object());
    }
    co_return tracer.string(text);
}

Task format_from_start(Tracer& tracer, PyObject* format, Arguments values) {
    Numbering numbering;
    co_return co_await tracer.start(format_all(tracer, format, &values, &numbering, 1));
}

}  // namespace

Outcome format_fields(Tracer& tracer, Borrowed<> format, Arguments values) {
    return tracer.start(format_from_start(tracer, format, std::move(values)));
}

}  // namespace stator
