#include "value/kinds/made_class.h"

#include <unordered_map>

#include "base/imported.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "value/kinds/rebuilding.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// By class. Each is there as long as its trace.
std::unordered_map<PyTypeObject*, const MadeClass*>& all() {
    static auto* const classes = new std::unordered_map<PyTypeObject*, const MadeClass*>();
    return *classes;
}

}  // namespace

MadeClass::MadeClass(PyTypeObject* model, Value* value, Arguments arguments)
    : model_(model), value_(value), arguments_(std::move(arguments)) {
    all().emplace(model, this);
}

MadeClass::~MadeClass() {
    all().erase(model_);
}

const MadeClass* MadeClass::find(PyTypeObject* model) {
    auto found = all().find(model);
    return found == all().end() ? nullptr : found->second;
}

void MadeClass::refuse(Tracer& tracer, const std::string& use) const {
    tracer.break_graph(BreakKind::UnknownObject,
                       "class " + type_name(model_) + ", which was created in the captured region, " + use);
}

void MadeClass::expect_own_part(Tracer& tracer, Borrowed<> name) const {
    const std::string_view text = utf8(name);
    const bool is_text = text == "__name__" || text == "__qualname__" || text == "__module__" || text == "__doc__";
    const bool is_harmless = text == "__class__" || text == "__match_args__" || text == "__new__";
    PyObject* raw = cpython::lookup_in_mro(model_, name, nullptr);
    const bool is_method = raw != nullptr && (PyFunction_Check(raw) || Py_TYPE(raw) == &PyWrapperDescr_Type ||
                                              Py_TYPE(raw) == &PyMethodDescr_Type);
    if (text == "_field_defaults" || (text.starts_with("__") && !is_text && !is_harmless && !is_method))
        refuse(tracer, "is asked for its attribute '" + std::string(text) + "'");
}

int MadeClass::rebuild(PlanBuilder& plan) const {
    static PyObject* const namedtuple = imported("collections", "namedtuple");
    return rebuild_by_call(plan, value_, namedtuple, arguments_);
}

int MadeClass::rebuild_instance(PlanBuilder& plan, const Value* instance, std::vector<std::int32_t> items) const {
    static PyObject* const create = method_of_class(&PyTuple_Type, "__new__");
    const int type = rebuild(plan), contents = plan.add(PlanOp::Tuple, std::move(items));
    const int to = plan.reserve(instance);
    plan.add_to(to, PlanOp::Call, {type, contents}, create);
    return to;
}

}  // namespace stator
