#include "graph/fx_layout.h"

#include <structmember.h>

#include <set>
#include <string>

#include "base/python_error.h"
#include "base/text.h"

namespace stator::graph {

namespace {

/// The offset of an object field of `type`, or -1.
Py_ssize_t object_offset(Borrowed<> dict, const char* name) {
    PyObject* member = PyDict_GetItemString(dict, name);
    if (member == nullptr || !Py_IS_TYPE(member, &PyMemberDescr_Type)) return -1;
    const PyMemberDef* definition = reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
    bool is_plain = definition->type == T_OBJECT_EX && definition->flags == 0;
    return is_plain ? definition->offset : -1;
}

/// An unknown field might need a value: then there is no layout.
bool has_only_known_fields(Borrowed<> dict) {
    static const std::set<std::string_view> known = {"_erased", "_prev",  "_next",    "graph",        "name",
                                                     "op",      "target", "type",     "_input_nodes", "_args",
                                                     "_kwargs", "users",  "_repr_fn", "meta"};
    PyObject *name, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &name, &value);)
        if (Py_IS_TYPE(value, &PyMemberDescr_Type) && !known.contains(utf8(name))) return false;
    return true;
}

std::optional<NodeLayout> read_layout() {
    Ref<> module = checked(PyImport_ImportModule("torch.fx.node"));
    Ref<> node = checked(PyObject_GetAttrString(module.get(), "Node"));
    if (!PyType_Check(node.get())) return std::nullopt;
    auto* type = reinterpret_cast<PyTypeObject*>(node.get());
    PyTypeObject* base = type->tp_base;
    bool is_c_class = base != nullptr && (base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && base->tp_dict != nullptr;
    // A `__new__`, or slots of the Python class, would have to be respected.
    if (!is_c_class || type->tp_new != base->tp_new || PyDict_GetItemString(type->tp_dict, "__slots__") != nullptr)
        return std::nullopt;
    Borrowed<> fields = base->tp_dict;
    NodeLayout layout{};
    layout.node_type = type;
    struct {
        const char* name;
        Py_ssize_t NodeLayout::*offset;
    } wanted[] = {{"_prev", &NodeLayout::previous}, {"_next", &NodeLayout::next},
                  {"graph", &NodeLayout::graph},    {"name", &NodeLayout::name},
                  {"op", &NodeLayout::op},          {"target", &NodeLayout::target},
                  {"type", &NodeLayout::type},      {"_input_nodes", &NodeLayout::input_nodes},
                  {"_args", &NodeLayout::args},     {"_kwargs", &NodeLayout::kwargs},
                  {"users", &NodeLayout::users},    {"_repr_fn", &NodeLayout::repr_fn},
                  {"meta", &NodeLayout::meta}};
    for (auto& [name, offset] : wanted)
        if ((layout.*offset = object_offset(fields, name)) < 0) return std::nullopt;
    layout.sort_key = PyDict_GetItemString(fields, "_sort_key");
    bool has_sort_key = layout.sort_key != nullptr && Py_IS_TYPE(layout.sort_key, &PyGetSetDescr_Type);
    if (!has_sort_key || !has_only_known_fields(fields)) return std::nullopt;
    Py_INCREF(layout.sort_key);
    Py_INCREF(type);
    return layout;
}

}  // namespace

const std::optional<NodeLayout>& node_layout() {
    static const std::optional<NodeLayout> layout = read_layout();
    return layout;
}

}  // namespace stator::graph
