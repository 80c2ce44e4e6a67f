/// `collections.namedtuple` called by the program. The class is made while tracing, for the trace alone, and again by
/// the plan, so that each call of the program has a class of its own.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "value/builtins/library.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/made_class.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// An argument as a constant that no one can change: a list of names becomes a tuple.
Value* fixed_argument(Tracer& tracer, Value* value) {
    Ref<> constant = value->as_constant(tracer);
    if (constant && PyList_CheckExact(constant.get())) constant = checked(PyList_AsTuple(constant.get()));
    const bool is_known = constant && (PyTuple_CheckExact(constant.get()) || value->kind == Kind::Constant);
    if (!is_known)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "collections.namedtuple is called with arguments that are not constants");
    return tracer.constant(constant.get());
}

}  // namespace

Value* module_of_caller(Tracer& tracer) {
    PyObject* dict = tracer.running_function()->globals;
    auto* globals = static_cast<DictValue*>(tracer.outside(tracer.provenance().pinned(dict), dict));
    tracer.realize(globals);
    Value* name = globals->find(tracer, interned("__name__"));
    return name == nullptr ? tracer.string("__main__") : fixed_argument(tracer, name);
}

namespace {

Outcome make_named_tuple_class(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const namedtuple = imported("collections", "namedtuple");
    Arguments fixed;
    for (Value* value : arguments.positional) fixed.positional.push_back(fixed_argument(tracer, value));
    for (const Keyword& keyword : arguments.keywords)
        fixed.keywords.push_back({keyword.name, fixed_argument(tracer, keyword.value)});
    if (fixed.keyword("module") == nullptr) fixed.keywords.push_back({interned("module"), module_of_caller(tracer)});
    ConstantArguments constants;
    if (!constants.take(tracer, fixed)) STATOR_CHECK(false, "all arguments are constants");
    Ref<> made = constants.call(namedtuple);
    if (!made) tracer.raise_from_python();
    PyObject* model = tracer.keep(std::move(made));
    Value* value = tracer.constant(model);
    tracer.make<MadeClass>(reinterpret_cast<PyTypeObject*>(model), value, namedtuple, std::move(fixed));
    return value;
}

}  // namespace

Value* make_named_tuple_of(Tracer& tracer, const ClassParts& parts) {
    static PyObject* const meta = imported("typing", "NamedTupleMeta");
    static PyObject* const bases = checked(PyTuple_Pack(1, imported("typing", "_NamedTuple"))).release();
    Ref<> names = parts.names->as_constant(tracer);
    if (!names)
        tracer.break_graph(BreakKind::UnknownObject,
                           "a NamedTuple is defined inside the function, and has methods or "
                           "other members that are not constants");
    Ref<> made = Ref<>::steal(PyObject_CallFunctionObjArgs(meta, parts.name, bases, names.get(), nullptr));
    if (!made) tracer.raise_from_python();
    PyObject* model = tracer.keep(std::move(made));
    Value* value = tracer.constant(model);
    tracer.make<MadeClass>(reinterpret_cast<PyTypeObject*>(model), value, meta,
                           Arguments::of(tracer.constant(parts.name), tracer.constant(bases), parts.names));
    return value;
}

void register_named_tuples(Handlers& handlers) {
    handlers.add("collections", "namedtuple", make_named_tuple_class);
}

}  // namespace stator
