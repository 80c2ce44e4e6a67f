#include "graph/fx_arguments.h"

#include "base/python_error.h"

namespace stator::graph {

namespace {

bool is_atom(PyObject* object) {
    return !PyTuple_Check(object) && !PyList_Check(object) && !PyDict_Check(object) && !PySlice_Check(object);
}

/// A named tuple keeps its class; `torch.Size` and the like become plain tuples, as in `torch.fx`.
Ref<> with_tuple_class(Ref<> tuple, PyTypeObject* type) {
    if (type == nullptr || type == &PyTuple_Type) return tuple;
    auto* constructor = reinterpret_cast<PyObject*>(type);
    if (!PyObject_HasAttrString(constructor, "_fields")) return tuple;
    return checked(PyObject_CallObject(constructor, tuple.get()));
}

}  // namespace

FxArguments::FxArguments() {
    Ref<> module = checked(PyImport_ImportModule("torch.fx.immutable_collections"));
    immutable_list_ = checked(PyObject_GetAttrString(module.get(), "immutable_list"));
    immutable_dict_ = checked(PyObject_GetAttrString(module.get(), "immutable_dict"));
    no_keywords_ = checked(PyObject_CallNoArgs(immutable_dict_.get()));
}

Ref<> FxArguments::positional(const Node& node, std::span<PyObject* const> nodes) const {
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(node.arguments.size())));
    for (std::size_t i = 0; i < node.arguments.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), i, convert(node.arguments[i], nodes).release());
    return tuple;
}

Ref<> FxArguments::keywords(const Node& node, std::span<PyObject* const> nodes) const {
    if (node.keywords.empty()) return no_keywords_;
    Ref<> dict = checked(PyObject_CallNoArgs(immutable_dict_.get()));
    for (const KeywordArgument& keyword : node.keywords)
        checked(PyDict_SetItem(dict.get(), keyword.name, convert(keyword.value, nodes).get()));
    return dict;
}

Ref<> FxArguments::convert(const Argument& argument, std::span<PyObject* const> nodes) const {
    switch (argument.kind) {
        case Argument::Kind::Node:
            return Ref<>::share(nodes[argument.node->index]);
        case Argument::Kind::Constant:
            return is_atom(argument.constant) ? Ref<>::share(argument.constant) : freeze(argument.constant);
        default:
            return convert_items(argument, nodes);
    }
}

Ref<> FxArguments::convert_items(const Argument& argument, std::span<PyObject* const> nodes) const {
    const Argument::Items& items = *argument.items;
    if (argument.kind == Argument::Kind::Dict) {
        Ref<> dict = checked(PyObject_CallNoArgs(immutable_dict_.get()));
        for (std::size_t i = 0; i < items.values.size(); ++i)
            checked(PyDict_SetItem(dict.get(), items.keys[i], convert(items.values[i], nodes).get()));
        return dict;
    }
    if (argument.kind == Argument::Kind::Slice) {
        Ref<> start = convert(items.values[0], nodes), stop = convert(items.values[1], nodes);
        return checked(PySlice_New(start.get(), stop.get(), convert(items.values[2], nodes).get()));
    }
    if (argument.kind == Argument::Kind::List) {
        Ref<> list = checked(PyObject_CallNoArgs(immutable_list_.get()));
        for (const Argument& item : items.values) checked(PyList_Append(list.get(), convert(item, nodes).get()));
        return list;
    }
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(items.values.size())));
    for (std::size_t i = 0; i < items.values.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), i, convert(items.values[i], nodes).release());
    return with_tuple_class(std::move(tuple), items.type);
}

Ref<> FxArguments::freeze(Borrowed<> constant) const {
    if (is_atom(constant)) return Ref<>::share(constant.get());
    if (PySlice_Check(constant.get())) {
        auto* slice = reinterpret_cast<PySliceObject*>(constant.get());
        if (is_atom(slice->start) && is_atom(slice->stop) && is_atom(slice->step)) return Ref<>::share(constant.get());
        Ref<> start = freeze(slice->start), stop = freeze(slice->stop);
        return checked(PySlice_New(start.get(), stop.get(), freeze(slice->step).get()));
    }
    if (PyDict_Check(constant.get())) {
        Ref<> dict = checked(PyObject_CallNoArgs(immutable_dict_.get()));
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(constant, &position, &key, &value);)
            checked(PyDict_SetItem(dict.get(), key, freeze(value).get()));
        return dict;
    }
    if (PyList_Check(constant.get())) {
        Ref<> list = checked(PyObject_CallNoArgs(immutable_list_.get()));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(constant.get()); ++i)
            checked(PyList_Append(list.get(), freeze(PyList_GET_ITEM(constant.get(), i)).get()));
        return list;
    }
    Ref<> tuple = checked(PyTuple_New(PyTuple_GET_SIZE(constant.get())));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant.get()); ++i)
        PyTuple_SET_ITEM(tuple.get(), i, freeze(PyTuple_GET_ITEM(constant.get(), i)).release());
    return with_tuple_class(std::move(tuple), Py_TYPE(constant.get()));
}

}  // namespace stator::graph
