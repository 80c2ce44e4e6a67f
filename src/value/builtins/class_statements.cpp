/// Class statements, and `type(name, bases, names)`.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "value/builtins/library.h"
#include "value/kinds/class.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/made_class.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    tracer.break_graph(BreakKind::UnknownObject, "a class is defined inside the function " + why);
}

Task build_class(Tracer& tracer, FunctionValue* body, ClassParts parts) {
    Value* cell = co_await push_class_body(tracer, body, parts.names);
    parts.names->remove(tracer, tracer.constant(interned("__classcell__")));
    static PyObject* const named_tuple = imported("typing", "NamedTuple");
    const bool is_named_tuple = parts.bases.size() == 1 && parts.bases[0]->object() == named_tuple;
    if (is_named_tuple) tracer.realize(parts.bases[0]);
    Value* made = is_named_tuple ? make_named_tuple_of(tracer, parts) : make_class(tracer, std::move(parts));
    if (auto* own_class = cast<CellValue>(cell)) own_class->set(tracer, made);
    co_return made;
}

/// `__build_class__(body, name, *bases)`.
Outcome class_statement(Tracer& tracer, const Arguments& arguments) {
    if (!arguments.keywords.empty()) refuse(tracer, "with a metaclass or other keyword arguments");
    if (arguments.positional.size() < 2) refuse(tracer, "by an unusual call");
    auto* body = cast<FunctionValue>(arguments.positional[0]);
    PyObject* name = arguments.positional[1]->object();
    if (body == nullptr || name == nullptr || !PyUnicode_CheckExact(name)) refuse(tracer, "by an unusual call");
    ClassParts parts{name, {arguments.positional.begin() + 2, arguments.positional.end()}, tracer.make<DictValue>()};
    return tracer.start(build_class(tracer, body, std::move(parts)));
}

/// `dataclasses._process_class(cls, *options)`, which `@dataclass` calls.
Outcome process_dataclass(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const process = imported("dataclasses", "_process_class");
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    const MadeClass* made = type == nullptr ? nullptr : MadeClass::find(type->held);
    if (made == nullptr || !arguments.keywords.empty())
        tracer.break_graph(BreakKind::OutsideMutation, "dataclass() changes a class that existed before the call");
    std::vector<PyObject*> options;
    for (std::size_t i = 1; i < arguments.positional.size(); ++i) {
        Ref<> constant = arguments.positional[i]->as_constant(tracer);
        if (!constant) made->refuse(tracer, "is made a dataclass with options that are not constants");
        options.push_back(tracer.keep(std::move(constant)));
    }
    PyObject* raw = nullptr;
    Value* annotations = made->own_attribute(tracer, interned("__annotations__"), &raw);
    Ref<> read = annotations == nullptr ? checked(PyDict_New()) : annotations->as_constant(tracer);
    if (!read || !PyDict_CheckExact(read.get()))
        made->refuse(tracer, "is made a dataclass with annotations that are not constants");
    made->decorate(tracer, process, std::move(options), tracer.keep(std::move(read)));
    return type;
}

}  // namespace

Outcome make_class_of(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 3 || !arguments.keywords.empty()) refuse(tracer, "by an unusual call of type()");
    for (Value* argument : arguments.positional) tracer.realize(argument);
    Ref<> name = arguments.positional[0]->as_constant(tracer);
    auto* bases = cast<TupleValue>(arguments.positional[1]);
    auto* names = cast<DictValue>(arguments.positional[2]);
    if (!name || !PyUnicode_CheckExact(name.get()) || bases == nullptr || names == nullptr)
        refuse(tracer, "by an unusual call of type()");
    DictValue* own = copy_dict(tracer, names);
    if (own->find(tracer, interned("__module__")) == nullptr)
        own->insert(tracer, tracer.constant(interned("__module__")), module_of_caller(tracer));
    return make_class(tracer, {tracer.keep(std::move(name)), bases->all(tracer), own});
}

void register_class_statements(Handlers& handlers) {
    handlers.add("builtins", "__build_class__", class_statement);
    handlers.add("dataclasses", "_process_class", process_dataclass);
}

}  // namespace stator
