/// Graphs as text.
#include "base/text.h"
#include "graph/node.h"
#include "torch/arrays.h"

namespace stator::graph {

namespace {

/// `operator.add`, `torch.relu`, `mymodule.helper`: read from the object itself, without running user code.
std::string print_callable(Borrowed<> target) {
    if (PyCFunction_Check(target.get())) {
        auto* function = reinterpret_cast<PyCFunctionObject*>(target.get());
        std::string name = function->m_ml->ml_name;
        PyObject* self = function->m_self;
        if (self != nullptr && PyType_Check(self)) {
            std::string owner = type_name(reinterpret_cast<PyTypeObject*>(self));
            return (owner.ends_with("_VariableFunctionsClass") ? "torch" : owner) + "." + name;
        }
        std::string module(function->m_module == nullptr ? "" : utf8(function->m_module));
        if (module == "_operator") module = "operator";
        return module.empty() || module == "builtins" ? name : module + "." + name;
    }
    if (PyFunction_Check(target.get())) {
        auto* function = reinterpret_cast<PyFunctionObject*>(target.get());
        std::string name(utf8(function->func_qualname));
        bool has_module = function->func_module != nullptr && PyUnicode_Check(function->func_module);
        return has_module ? std::string(utf8(function->func_module)) + "." + name : name;
    }
    if (Py_IS_TYPE(target.get(), &PyMethodDescr_Type) || Py_IS_TYPE(target.get(), &PyWrapperDescr_Type)) {
        auto* descriptor = reinterpret_cast<PyDescrObject*>(target.get());
        return type_name(descriptor->d_type) + "." + std::string(utf8(descriptor->d_name));
    }
    // A function of numpy on tensors (see stator.arrays).
    if (torch_room::calls_numpy(target))
        if (Ref<> name = Ref<>::steal(PyObject_GetAttrString(target, "__name__")); name && PyUnicode_Check(name.get()))
            return "torch._dynamo.utils." + std::string(utf8(name.get()));
    PyErr_Clear();
    return short_repr(target);
}

/// Containers of plain constants are printed in full; anything that might run user code is printed as its class.
std::string print_constant(Borrowed<> constant) {
    PyObject* object = constant;
    if (PyList_CheckExact(object) || (PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) > 0)) {
        std::span<PyObject*> items(PySequence_Fast_ITEMS(object), static_cast<std::size_t>(Py_SIZE(object)));
        std::string text = joined(items, [](PyObject* item) { return print_constant(item); });
        return PyList_CheckExact(object) ? "[" + text + "]" : "(" + text + (items.size() == 1 ? ",)" : ")");
    }
    if (PySlice_Check(object)) {
        auto* slice = reinterpret_cast<PySliceObject*>(object);
        return "slice(" + print_constant(slice->start) + ", " + print_constant(slice->stop) + ", " +
               print_constant(slice->step) + ")";
    }
    if (PyDict_CheckExact(object)) {
        std::string text;
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value);)
            text += (text.empty() ? "" : ", ") + print_constant(key) + ": " + print_constant(value);
        return "{" + text + "}";
    }
    if (PyCallable_Check(object) && !PyType_Check(object)) return print_callable(object);
    return short_repr(object);
}

std::string print_items(const Argument& argument) {
    const Argument::Items& items = *argument.items;
    auto print_one = [](const Argument& item) { return print(item); };
    switch (argument.kind) {
        case Argument::Kind::List:
            return "[" + joined(items.values, print_one) + "]";
        case Argument::Kind::Slice:
            return "slice(" + joined(items.values, print_one) + ")";
        case Argument::Kind::Dict: {
            std::string text;
            for (std::size_t i = 0; i < items.values.size(); ++i)
                text += (i == 0 ? "" : ", ") + short_repr(items.keys[i]) + ": " + print(items.values[i]);
            return "{" + text + "}";
        }
        default: {
            std::string type = items.type == nullptr ? "" : type_name(items.type);
            return type + "(" + joined(items.values, print_one) + (items.values.size() == 1 ? ",)" : ")");
        }
    }
}

}  // namespace

std::string print(const Argument& argument) {
    switch (argument.kind) {
        case Argument::Kind::Node:
            return "%" + (argument.node->name.empty() ? std::to_string(argument.node->index) : argument.node->name);
        case Argument::Kind::Constant:
            return print_constant(argument.constant);
        default:
            return print_items(argument);
    }
}

std::string operation_name(const Node& node) {
    if (node.target == nullptr) return identifier(*node.path);
    return PyUnicode_Check(node.target) ? std::string(utf8(node.target)) : print_callable(node.target);
}

std::string print(const Node& node) {
    auto print_one = [](const Argument& argument) { return print(argument); };
    std::string inputs = joined(node.arguments, print_one);
    for (const KeywordArgument& keyword : node.keywords)
        inputs += (inputs.empty() ? "" : ", ") + std::string(utf8(keyword.name)) + "=" + print(keyword.value);
    if (node.kind == NodeKind::Output) return "output " + inputs;
    std::string text = print(Argument::of(const_cast<Node*>(&node))) + " = " + fx_word(node.kind) + " ";
    text += operation_name(node);
    if (node.kind == NodeKind::Function || node.kind == NodeKind::Method) text += "(" + inputs + ")";
    std::string result = print(node.result);
    return result.empty() ? text : text + " -> " + result;
}

std::string print(const Graph& graph) {
    graph.ensure_names();
    return joined(
               graph.nodes(), [](const Node* node) { return print(*node); }, "\n") +
           "\n";
}

std::string print(const ModulePath& path) {
    // Modules are printed as attributes: `._modules['a']` is `.a`.
    std::vector<const PathText*> pieces;
    for (const PathText* at = path.path; at != nullptr; at = at->before) pieces.push_back(at);
    std::string text;
    for (std::size_t i = pieces.size(); i-- > 0;) {
        const std::string& piece = pieces[i]->piece;
        bool is_holder = piece == "._modules" && i > 0 && pieces[i - 1]->piece.starts_with("['");
        if (!is_holder) {
            text += piece;
            continue;
        }
        const std::string& key = pieces[--i]->piece;  // `['a']`
        text += "." + key.substr(2, key.size() - 4);
    }
    return text;
}

std::string print(const Result& result) {
    auto print_one = [](const Result& item) { return print(item); };
    switch (result.kind) {
        case Result::Kind::None:
            return "";
        case Result::Kind::Tensor:
            return result.tensor == nullptr ? "tensor" : torch_room::print(*result.tensor);
        case Result::Kind::Constant:
            if (result.expression != nullptr && result.expression->is_unbacked)
                return print_by_symbols(*result.expression);
            return short_repr(result.constant);
        case Result::Kind::List:
            return "[" + joined(result.items, print_one) + "]";
        case Result::Kind::Tuple:
            return (result.type == nullptr ? "" : type_name(result.type)) + "(" + joined(result.items, print_one) +
                   (result.items.size() == 1 ? ",)" : ")");
    }
    return "";
}

}  // namespace stator::graph
