#include "value/kinds/partial.h"
#include "value/protocol/attributes.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "effect/plan.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyTypeObject* partial_class() {
    static auto* const type = imported_class("functools", "partial");
    return type;
}

Value* part_of(Tracer& tracer, Value* partial, const char* name) {
    Outcome part = operations::get_attribute(tracer, partial, interned(name));
    STATOR_CHECK(!part.is_pending(), "reading func, args or keywords must not be pending");
    tracer.realize(part.value());
    return part.value();
}

/// The arguments of a partial, then those of the call. A keyword of the call replaces the partial's at its position.
Arguments joined_arguments(Arguments first, const Arguments& given) {
    first.positional.insert(first.positional.end(), given.positional.begin(), given.positional.end());
    for (const Keyword& keyword : given.keywords) {
        bool replaced = false;
        for (Keyword& before : first.keywords) {
            if (PyUnicode_Compare(before.name, keyword.name) != 0) continue;
            before.value = keyword.value;
            replaced = true;
        }
        if (!replaced) first.keywords.push_back(keyword);
    }
    return first;
}

}  // namespace

PartialParts parts_of_partial(Tracer& tracer, Value* partial) {
    PartialParts parts;
    parts.function = part_of(tracer, partial, "func");
    parts.arguments.positional = as_sequence(part_of(tracer, partial, "args"))->all(tracer);
    auto* keywords = static_cast<DictValue*>(part_of(tracer, partial, "keywords"));
    for (Table::Entry* entry : keywords->entries(tracer)) {
        tracer.realize(entry->key);
        parts.arguments.keywords.push_back({entry->key->object(), keywords->value_of(tracer, entry)});
    }
    return parts;
}

bool is_partial_class(PyTypeObject* type) {
    return PyType_IsSubtype(type, partial_class()) != 0;
}

ObjectValue* make_partial(Tracer& tracer, PyTypeObject* type, const Arguments& arguments) {
    if (arguments.positional.empty()) tracer.raise(PyExc_TypeError, "type 'partial' takes at least one argument");
    Value* function = arguments.positional[0];
    tracer.realize(function);
    if (!has_special_method(tracer, function->type(), "__call__"))
        tracer.raise(PyExc_TypeError, "the first argument must be callable");
    PartialParts parts{function, {{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords}};
    // A partial of a plain partial is flattened.
    if (auto* inner = cast<ObjectValue>(function);
        inner != nullptr && inner->class_ == partial_class() && type == partial_class() && inner->own_dict == nullptr) {
        PartialParts below = parts_of_partial(tracer, inner);
        parts = {below.function, joined_arguments(std::move(below.arguments), parts.arguments)};
    }
    auto* partial = tracer.make<ObjectValue>(type);
    auto* keywords = tracer.make<DictValue>();
    for (const Keyword& keyword : parts.arguments.keywords)
        keywords->insert(tracer, tracer.constant(keyword.name), keyword.value);
    partial->attributes = {
        {interned("func"), parts.function},
        {interned("args"), make_tuple(tracer, std::move(parts.arguments.positional))},
        {interned("keywords"), keywords},
    };
    return partial;
}

Outcome call_partial(Tracer& tracer, Value* partial, const Arguments& arguments) {
    PartialParts parts = parts_of_partial(tracer, partial);
    return operations::call(tracer, parts.function, joined_arguments(std::move(parts.arguments), arguments));
}

int rebuild_partial(PlanBuilder& plan, ObjectValue* partial) {
    static PyObject* const set_state =
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(partial_class()), "__setstate__");
    auto part = [&](const char* name) {
        for (auto& [key, value] : partial->attributes)
            if (key == interned(name)) return value->rebuild(plan);
        STATOR_CHECK(false, "a partial lacks func, args or keywords");
    };
    // Created with any callable first: the real one may reference the partial, and is set afterwards.
    int to = plan.reserve(partial);
    int any_callable = plan.constant(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    plan.add_to(to, PlanOp::NewObject, {any_callable}, reinterpret_cast<PyObject*>(partial->class_));
    int function = part("func"), arguments = part("args"), keywords = part("keywords");
    int state = plan.add(PlanOp::Tuple, {function, arguments, keywords, plan.constant(Py_None)});
    plan.add(PlanOp::Call, {to, state}, set_state);
    for (auto& [name, value] : partial->attributes) {
        bool is_part = name == interned("func") || name == interned("args") || name == interned("keywords");
        if (!is_part && value != nullptr) plan.add(PlanOp::SetAttribute, {to, value->rebuild(plan)}, name);
    }
    rebuild_own_dict_entries(plan, to, partial);
    return to;
}

}  // namespace stator
