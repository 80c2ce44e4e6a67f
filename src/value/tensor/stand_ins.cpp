#include "value/tensor/stand_ins.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/names.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/tensor/torch_function.h"
#include "value/tracer.h"

namespace stator {

bool defines_torch_function(PyTypeObject* type) {
    return cpython::lookup_in_mro(type, interned("__torch_function__")) != nullptr;
}

bool is_overriding(const Value* value) {
    return value->kind == Kind::TensorObject || (value->kind == Kind::Object && defines_torch_function(value->type()));
}

PyObject* StandIns::object_of(Value* value) {
    Ref<> made = make(value);
    pairs_.emplace_back(std::move(made), value);
    return pairs_.back().first.get();
}

Value* StandIns::value_of(PyObject* object) {
    for (const auto& [made, value] : pairs_)
        if (made.get() == object) return value;
    if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
        std::vector<Value*> items;
        Ref<> parts = checked(PySequence_Tuple(object));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i)
            items.push_back(value_of(PyTuple_GET_ITEM(parts.get(), i)));
        return PyTuple_CheckExact(object) ? static_cast<Value*>(stator::make_tuple(tracer_, std::move(items)))
                                          : make_list(tracer_, std::move(items));
    }
    if (!is_constant(object))
        tracer_.break_graph(BreakKind::UnsupportedTensor, "PyTorch passes a " + type_name(Py_TYPE(object)) +
                                                              ", which it created, to __torch_function__");
    return tracer_.constant(object);
}

Ref<> StandIns::make(Value* value) {
    static PyObject* const stand_in = imported("stator.torch_functions", "stand_in");
    static PyObject* const method_stand_in = imported("stator.torch_functions", "method_stand_in");
    static PyObject* const plain_stand_in = imported("stator.torch_functions", "plain_stand_in");
    static PyObject* const parameter_stand_in = imported("stator.torch_functions", "parameter_stand_in");
    tracer_.realize(value);
    if (value->kind == Kind::Tensor && value->type() == torch_room::parameter_class())
        return checked(PyObject_CallNoArgs(parameter_stand_in));
    if (is_overriding(value) || value->kind == Kind::Tensor)
        return checked(PyObject_CallNoArgs(!has_active_torch_function(tracer_, value) ? plain_stand_in
                                           : has_method_torch_function(value->type()) ? method_stand_in
                                                                                      : stand_in));
    if (Ref<> constant = value->as_constant(tracer_)) return constant;
    if (value->type() == &PyList_Type || value->type() == &PyTuple_Type) {
        auto* sequence = static_cast<SequenceValue*>(value);
        Ref<> list = checked(PyList_New(0));
        for (Value* item : sequence->all(tracer_)) checked(PyList_Append(list.get(), object_of(item)));
        return value->type() == &PyList_Type ? std::move(list) : checked(PyList_AsTuple(list.get()));
    }
    if (value->kind == Kind::Class || value->kind == Kind::Builtin) return Ref<>::share(value->object());
    tracer_.break_graph(BreakKind::UnsupportedTensor,
                        "a " + type_name(value->type()) + " is passed to __torch_function__");
}

StandIns::Call StandIns::call_with(const Arguments& arguments) {
    Call call{checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.positional.size()))), checked(PyDict_New())};
    for (std::size_t i = 0; i < arguments.positional.size(); ++i)
        PyTuple_SET_ITEM(call.positional.get(), static_cast<Py_ssize_t>(i),
                         Py_NewRef(object_of(arguments.positional[i])));
    for (const Keyword& keyword : arguments.keywords)
        checked(PyDict_SetItem(call.keywords.get(), keyword.name, object_of(keyword.value)));
    return call;
}

std::vector<Value*> StandIns::passed(Borrowed<> handed, Value* types) {
    PyObject* function = tracer_.keep(checked(PyObject_GetAttrString(handed, "function")));
    Ref<> given = checked(PyObject_GetAttrString(handed, "arguments"));
    Ref<> keywords = checked(PyObject_GetAttrString(handed, "keywords"));
    std::vector<Value*> all{tracer_.outside(tracer_.provenance().pinned(function), function), types,
                            value_of(given.get())};
    if (keywords.get() == Py_None) return all;
    auto* dict = tracer_.make<DictValue>();
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(keywords.get(), &position, &name, &value))
        dict->insert(tracer_, tracer_.constant(name), value_of(value));
    all.push_back(dict);
    return all;
}

}  // namespace stator
