#include "value/tensor/lazy_modules.h"

#include <algorithm>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "torch/fake.h"
#include "value/effect_log.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer) {
    tracer.break_graph(BreakKind::UnsupportedTensor,
                       "a lazy module is initialized with arguments that have no FakeTensor equivalent");
}

/// An argument of the module's first call, with FakeTensors.
Ref<> stand_in(Tracer& tracer, Value* value, Borrowed<> mode) {
    tracer.realize(value);
    if (auto* tensor = cast<TensorValue>(value)) return torch_room::make_fake(mode, *tensor->meta);
    if (SequenceValue* sequence = as_sequence(value)) {
        Ref<> items = checked(PyList_New(0));
        for (Value* item : sequence->all(tracer))
            checked(PyList_Append(items.get(), stand_in(tracer, item, mode).get()));
        if (sequence->class_ == &PyList_Type) return items;
        Ref<> tuple = checked(PyList_AsTuple(items.get()));
        if (sequence->class_ == &PyTuple_Type) return tuple;
        if (value->kind != Kind::Tuple || !has_fields(sequence->class_)) refuse(tracer);
        auto* type = reinterpret_cast<PyObject*>(sequence->class_);
        return PyObject_HasAttrString(type, "_fields") ? checked(PyObject_CallObject(type, tuple.get()))
                                                       : checked(PyObject_CallOneArg(type, tuple.get()));
    }
    if (auto* dict = cast<DictValue>(value); dict != nullptr && dict->class_ == &PyDict_Type) {
        Ref<> made = checked(PyDict_New());
        for (Table::Entry* entry : dict->entries(tracer)) {
            Ref<> key = stand_in(tracer, entry->key, mode);
            checked(PyDict_SetItem(made.get(), key.get(), stand_in(tracer, dict->value_of(tracer, entry), mode).get()));
        }
        return made;
    }
    Ref<> constant = value->as_constant(tracer);
    if (!constant) refuse(tracer);
    return constant;
}

/// The pre-hook of a lazy module: it is executed on the real module while tracing. As uncompiled, that happens once,
/// whatever the result of the trace.
Outcome infer_parameters(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const initialise = imported("stator.lazy_modules", "initialise");
    static PyObject* const mode_cell = imported("stator.fake", "ModeCell");
    if (arguments.positional.size() < 3) refuse(tracer);
    PyObject* module = arguments.positional[1]->object();
    if (module == nullptr || !tracer.effects().empty()) refuse(tracer);
    // The parameters are drawn at random too, now, while what was captured runs later.
    if (std::ranges::any_of(tracer.recorder().graph().nodes(), &graph::Node::is_random))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a lazy module is initialized after an operation that draws random numbers");
    Ref<> cell = checked(PyObject_CallNoArgs(mode_cell));
    Ref<> mode = checked(PyObject_CallMethodNoArgs(cell.get(), interned("get")));
    Ref<> args = stand_in(tracer, arguments.positional[2], mode.get());
    bool has_keywords = arguments.positional.size() > 3 && arguments.positional[3]->object() != Py_None;
    Ref<> kwargs = has_keywords ? stand_in(tracer, arguments.positional[3], mode.get()) : checked(PyDict_New());
    if (!PyTuple_Check(args.get()) || !PyDict_Check(kwargs.get())) refuse(tracer);
    Ref<> done = Ref<>::steal(PyObject_CallFunctionObjArgs(initialise, module, args.get(), kwargs.get(), nullptr));
    if (!done) {
        PyErr_Clear();
        tracer.break_graph(BreakKind::UnsupportedTensor, "the initialization of a lazy module raises an exception");
    }
    if (done.get() != Py_True)
        tracer.break_graph(BreakKind::UnsupportedTensor, "a lazy module's parameters depend on the data of its inputs");
    throw StartAgain{"a lazy module was initialized"};
}

}  // namespace

void register_lazy_modules(Handlers& handlers) {
    Ref<> mixin = Ref<>::steal(imported("torch.nn.modules.lazy", "LazyModuleMixin"));
    Ref<> method = Ref<>::steal(PyObject_GetAttrString(mixin.get(), "_infer_parameters"));
    handlers.add(method.get(), infer_parameters);
}

}  // namespace stator
