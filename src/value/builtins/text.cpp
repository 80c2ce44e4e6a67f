/// `str`, `bytes` and conversions to text. String methods are executed on constants.
#include "value/protocol/text.h"
#include "base/python_error.h"
#include "value/builtins/registry.h"
#include "value/kinds/iterator.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"
#include "value/protocol/str_format.h"

namespace stator {

namespace {

Outcome make_str(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() == 1 && arguments.keywords.empty()) return str_of(tracer, arguments.positional[0]);
    if (arguments.positional.empty() && arguments.keywords.size() == 1 && arguments.keyword("object") != nullptr)
        return str_of(tracer, arguments.keyword("object"));
    if (Value* folded = fold(tracer, reinterpret_cast<PyObject*>(&PyUnicode_Type), arguments)) return folded;
    tracer.break_graph(BreakKind::UnknownObject, "str() decodes a value that is not a constant");
}

Outcome builtin_repr(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "repr", arguments, 1, 1);
    return repr_of(tracer, arguments.positional[0]);
}

Outcome builtin_format(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "format", arguments, 1, 2);
    return format_of(tracer, arguments.positional[0],
                     arguments.positional.size() == 2 ? arguments.positional[1] : nullptr);
}

Task join_items(Tracer& tracer, Value* separator, Value* iterable, PyObject* method) {
    Value* collected = co_await operations::collect_as_sequence(tracer, iterable);
    std::vector<Value*>& items = as_sequence(collected)->items;
    for (std::size_t i = 0; i < items.size(); ++i) {
        tracer.realize(items[i]);
        items[i] = unwrapped(tracer, items[i]);
        if (items[i]->kind != Kind::Constant)
            tracer.raise(PyExc_TypeError, "sequence item " + std::to_string(i) + ": expected str instance, " +
                                              items[i]->type()->tp_name + " found");
    }
    Arguments arguments;
    arguments.positional.push_back(separator);
    arguments.positional.push_back(collected);
    Value* folded = fold(tracer, method, arguments);
    if (folded == nullptr) tracer.break_graph(BreakKind::UnknownObject, "str.join() of values that are not constants");
    co_return folded;
}

Outcome str_join(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 2 || !arguments.keywords.empty())
        tracer.raise(PyExc_TypeError,
                     "str.join() takes exactly one argument (" + std::to_string(arguments.count() - 1) + " given)");
    tracer.realize(arguments.positional[1]);
    if (!is_iterable(arguments.positional[1])) tracer.raise(PyExc_TypeError, "can only join an iterable");
    static PyObject* const method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyUnicode_Type), "join");
    return tracer.start(join_items(tracer, arguments.positional[0], arguments.positional[1], method));
}

Outcome str_format(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyUnicode_Type), "format");
    if (Value* folded = fold(tracer, method, arguments)) return folded;
    Value* format = arguments.positional[0];
    tracer.realize(format);
    if (format->kind != Kind::Constant || !PyUnicode_Check(format->object()))
        tracer.break_graph(BreakKind::UnknownObject, "str.format() of a format string that is not a constant");
    Arguments values{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    return format_fields(tracer, format->object(), std::move(values));
}

Task collect_then_fold(Tracer& tracer, PyObject* callable, Value* iterable) {
    Value* collected = co_await operations::collect(tracer, iterable);
    Arguments arguments;
    arguments.positional.push_back(collected);
    Value* folded = fold(tracer, callable, arguments);
    if (folded == nullptr) tracer.break_graph(BreakKind::UnknownObject, "bytes() of items that are not constants");
    co_return folded;
}

Outcome make_bytes(Tracer& tracer, const Arguments& arguments) {
    auto* callable = reinterpret_cast<PyObject*>(&PyBytes_Type);
    if (!arguments.positional.empty()) {
        Value* given = arguments.positional[0];
        tracer.realize(given);
        if (given->kind == Kind::Object || operations::user_method(tracer, given, "__bytes__") != nullptr)
            tracer.break_graph(BreakKind::UnknownFunction, "bytes() of an object with a user-defined class");
    }
    if (Value* folded = fold(tracer, callable, arguments)) return folded;
    if (arguments.count() != 1 || arguments.positional.empty())
        tracer.break_graph(BreakKind::UnknownObject, "bytes() of a value that is not a constant");
    return tracer.start(collect_then_fold(tracer, callable, arguments.positional[0]));
}

}  // namespace

void register_text(Handlers& handlers) {
    handlers.add("builtins", "str", make_str);
    handlers.add("builtins", "bytes", make_bytes);
    handlers.add("builtins", "repr", builtin_repr);
    handlers.add("builtins", "format", builtin_format);
    handlers.add_method(&PyUnicode_Type, "join", str_join);
    handlers.add_method(&PyUnicode_Type, "format", str_format);
    handlers.add_pure_class(&PyUnicode_Type);
    handlers.add_pure_class(&PyBytes_Type);
    for (PyTypeObject* type : {&PyUnicode_Type, &PyBytes_Type})
        handlers.add_pure(Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "maketrans")));
    for (PyTypeObject* type : {&PyUnicode_Type, &PyBytes_Type})
        handlers.add_pure(Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "maketrans")).get());
    handlers.add_pure("posix", "fspath");
    handlers.add_pure("sys", "intern");
    for (const char* name : {"ord", "chr", "ascii"}) handlers.add_pure("builtins", name);
}

}  // namespace stator
