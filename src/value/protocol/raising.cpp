#include "value/protocol/raising.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "value/kinds/exception.h"
#include "value/protocol/refusal.h"

namespace stator {

void refuse_arguments(Tracer& tracer, Borrowed<> callable, const std::string& name, const Arguments& arguments,
                      Borrowed<> filler) {
    if (callable != nullptr) {
        Ref<> names = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.keywords.size())));
        for (std::size_t i = 0; i < arguments.keywords.size(); ++i)
            PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments.keywords[i].name));
        std::vector<PyObject*> given(arguments.count(), filler.get());
        if (!Ref<>::steal(PyObject_Vectorcall(callable, given.data(), arguments.positional.size(), names.get())))
            tracer.raise_from_python();
    }
    tracer.break_graph(BreakKind::UnknownFunction,
                       name + "() is called with arguments that Stator's model of it does not accept");
}

void raise_key_error(Tracer& tracer, Value* key) {
    throw Raised{make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_KeyError), {key})};
}

void raise_type_error(Tracer& tracer, const std::string& prefix, const Value* value, const std::string& suffix) {
    tracer.raise(PyExc_TypeError, prefix + "'" + value->type()->tp_name + "'" + suffix);
}

Value* or_not_implemented(Tracer& tracer, Value* answer) {
    return answer != nullptr ? answer : tracer.constant(Py_NotImplemented);
}

void expect_arguments(Tracer& tracer, PyTypeObject* type, const char* method, const Arguments& arguments,
                      std::size_t least, std::size_t most) {
    std::size_t count = arguments.positional.size() - 1;
    if (count >= least && count <= most && arguments.keywords.empty()) return;
    Ref<> instance = stand_in(tracer, arguments.positional[0]);
    if (!instance) instance = Ref<>::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
    if (!instance) tracer.raise_from_python();
    Arguments behind_self{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    refuse_arguments(tracer, checked(PyObject_GetAttrString(instance.get(), method)), method, behind_self);
}

void expect_arguments(Tracer& tracer, const char* module, const char* function, const Arguments& arguments,
                      std::size_t least, std::size_t most) {
    std::size_t count = arguments.positional.size();
    if (count >= least && count <= most && arguments.keywords.empty()) return;
    refuse_arguments(tracer, Ref<>::steal(imported(module, function)), function, arguments);
}

void raise_wrong_receiver(Tracer& tracer, PyTypeObject* type, const char* method, const Arguments& arguments) {
    if (arguments.positional.empty())
        tracer.raise(PyExc_TypeError,
                     std::string("unbound method ") + type->tp_name + "." + method + "() needs an argument");
    Value* self = arguments.positional[0];
    tracer.realize(self);
    if (PyType_IsSubtype(self->type(), type))
        tracer.break_graph(BreakKind::UnknownObject, std::string("a ") + type->tp_name + " of class " +
                                                         self->type()->tp_name + ", which Stator has no model of");
    tracer.raise(PyExc_TypeError, std::string("descriptor '") + method + "' for '" + type->tp_name +
                                      "' objects doesn't apply to a '" + self->type()->tp_name + "' object");
}

}  // namespace stator
