#include "testing/graph_builder.h"

#include <memory>
#include <string>

#include "base/boundary.h"
#include "base/check.h"
#include "base/python_error.h"
#include "base/text.h"
#include "graph/captured.h"
#include "graph/node.h"
#include "torch/tensor.h"

namespace stator {

namespace {

using graph::Argument;
using graph::Node;
using graph::NodeKind;
using graph::Result;

struct BuilderObject {
    PyObject ob_base;
    graph::Graph* graph;
};

/// Represents a node in the arguments of later ones.
struct NodeObject {
    PyObject ob_base;
    PyObject* builder;  // owned: the node lives in its graph
    Node* node;
};

extern PyTypeObject kBuilderType;
extern PyTypeObject kNodeType;

graph::Graph& graph_in(PyObject* self) {
    graph::Graph* graph = reinterpret_cast<BuilderObject*>(self)->graph;
    STATOR_CHECK(graph != nullptr, "the graph was already taken");
    return *graph;
}

bool mentions_node(PyObject* object) {
    if (Py_IS_TYPE(object, &kNodeType)) return true;
    if (PySlice_Check(object)) {
        auto* slice = reinterpret_cast<PySliceObject*>(object);
        return mentions_node(slice->start) || mentions_node(slice->stop) || mentions_node(slice->step);
    }
    if (PyDict_Check(object)) {
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value);)
            if (mentions_node(value)) return true;
        return false;
    }
    if (!PyTuple_Check(object) && !PyList_Check(object)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
        if (mentions_node(PySequence_Fast_GET_ITEM(object, i))) return true;
    return false;
}

Argument to_argument(graph::Graph& graph, PyObject* object) {
    if (Py_IS_TYPE(object, &kNodeType)) return Argument::of(reinterpret_cast<NodeObject*>(object)->node);
    if (!mentions_node(object)) return Argument::of_constant(graph.arena().keep(Ref<>::share(object)));
    auto* items = graph.arena().make<Argument::Items>();
    if (PySlice_Check(object)) {
        auto* slice = reinterpret_cast<PySliceObject*>(object);
        for (PyObject* part : {slice->start, slice->stop, slice->step})
            items->values.push_back(to_argument(graph, part));
        return Argument::of_items(Argument::Kind::Slice, items);
    }
    if (PyDict_Check(object)) {
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value);) {
            items->keys.push_back(graph.arena().keep(Ref<>::share(key)));
            items->values.push_back(to_argument(graph, value));
        }
        return Argument::of_items(Argument::Kind::Dict, items);
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
        items->values.push_back(to_argument(graph, PySequence_Fast_GET_ITEM(object, i)));
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) items->type = Py_TYPE(object);
    return Argument::of_items(PyList_Check(object) ? Argument::Kind::List : Argument::Kind::Tuple, items);
}

Result to_result(graph::Graph& graph, PyObject* example) {
    Result result;
    if (torch_room::is_tensor(example)) {
        result.kind = Result::Kind::Tensor;
        result.tensor = graph.arena().make<torch_room::TensorMeta>(torch_room::read_meta(example));
    } else if (PyTuple_Check(example) || PyList_Check(example)) {
        result.kind = PyTuple_Check(example) ? Result::Kind::Tuple : Result::Kind::List;
        if (PyTuple_Check(example) && !PyTuple_CheckExact(example)) result.type = Py_TYPE(example);
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(example); ++i)
            result.items.push_back(to_result(graph, PySequence_Fast_GET_ITEM(example, i)));
    } else {
        result.kind = Result::Kind::Constant;
        result.constant = graph.arena().keep(Ref<>::share(example));
    }
    return result;
}

/// `[(code, line), ...]`, innermost first.
const graph::Location* to_location(graph::Graph& graph, PyObject* frames) {
    graph::Location* location = nullptr;
    for (Py_ssize_t i = PyList_Size(frames); i-- > 0;) {
        PyObject* frame = PyList_GET_ITEM(frames, i);
        auto* code = graph.arena().keep(Ref<>::share(PyTuple_GetItem(frame, 0)));
        int line = static_cast<int>(PyLong_AsLong(PyTuple_GetItem(frame, 1)));
        location = graph.arena().make<graph::Location>(reinterpret_cast<PyCodeObject*>(code), line, location);
    }
    return location;
}

/// `[(path, class), ...]`, innermost first.
const graph::ModulePath* to_modules(graph::Graph& graph, PyObject* modules) {
    graph::ModulePath* path = nullptr;
    for (Py_ssize_t i = PyList_Size(modules); i-- > 0;) {
        PyObject* entry = PyList_GET_ITEM(modules, i);
        auto* text = graph.texts()->make<PathText>(nullptr, std::string(utf8(PyTuple_GetItem(entry, 0))));
        auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GetItem(entry, 1));
        path = graph.arena().make<graph::ModulePath>(text, type, path, type);
    }
    return path;
}

bool to_kind(std::string_view word, NodeKind& kind) {
    constexpr NodeKind kAll[] = {
#define NODE_KIND(name, word) NodeKind::name,
#include "graph/node_kinds.def"
#undef NODE_KIND
    };
    for (NodeKind each : kAll)
        if (word == graph::fx_word(each)) return kind = each, true;
    PyErr_Format(PyExc_ValueError, "no such kind of node: %s", std::string(word).c_str());
    return false;
}

Ref<> wrap(PyObject* builder, Node* node) {
    auto* object = PyObject_New(NodeObject, &kNodeType);
    if (object == nullptr) throw PythonError();
    object->builder = Py_NewRef(builder);
    object->node = node;
    return Ref<>::steal(reinterpret_cast<PyObject*>(object));
}

PyObject* add(PyObject* self, PyObject* args, PyObject* kwargs) {
    const char* word;
    PyObject *target, *positional = nullptr, *keywords = nullptr, *result = nullptr, *location = nullptr,
                      *modules = nullptr;
    PyObject* extra_meta = nullptr;
    int has_effect = 0, same_as_argument = -1;
    static const char* names[] = {"kind",   "target",           "args",       "kwargs", "result", "location", "modules",
                                  "effect", "same_as_argument", "extra_meta", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|O!O!OO!O!piO!:add", const_cast<char**>(names), &word, &target,
                                     &PyTuple_Type, &positional, &PyDict_Type, &keywords, &result, &PyList_Type,
                                     &location, &PyList_Type, &modules, &has_effect, &same_as_argument, &PyDict_Type,
                                     &extra_meta))
        return nullptr;
    NodeKind kind;
    if (!to_kind(word, kind)) return nullptr;
    return at_boundary([&] {
        graph::Graph& graph = graph_in(self);
        std::vector<Argument> arguments;
        for (Py_ssize_t i = 0; positional != nullptr && i < PyTuple_GET_SIZE(positional); ++i)
            arguments.push_back(to_argument(graph, PyTuple_GET_ITEM(positional, i)));
        std::vector<graph::KeywordArgument> keyword_arguments;
        PyObject *key, *value;
        for (Py_ssize_t position = 0; keywords != nullptr && PyDict_Next(keywords, &position, &key, &value);)
            keyword_arguments.push_back({graph.arena().keep(Ref<>::share(key)), to_argument(graph, value)});
        Node* node = graph.add(kind, target, std::move(arguments), std::move(keyword_arguments));
        if (result != nullptr) node->result = to_result(graph, result);
        node->result.same_as_argument = same_as_argument;
        if (location != nullptr) node->location = to_location(graph, location);
        if (modules != nullptr) node->modules = to_modules(graph, modules);
        if (extra_meta != nullptr) node->extra_meta = graph.arena().keep(Ref<>::share(extra_meta));
        if (has_effect) node->has_effect = true;
        return wrap(self, node);
    });
}

PyObject* name_after(PyObject* self, PyObject* args) {
    NodeObject* node;
    const char* variable;
    if (!PyArg_ParseTuple(args, "O!s:name_after", &kNodeType, &node, &variable)) return nullptr;
    return at_boundary([&] {
        graph_in(self).name_after(node->node, variable);
        return Ref<>::share(Py_None);
    });
}

PyObject* truncate(PyObject* self, PyObject* size) {
    return at_boundary([&] {
        graph_in(self).truncate(PyLong_AsSize_t(size));
        return Ref<>::share(Py_None);
    });
}

/// For tests: a Python function of sizes, strides, dtype number, requires_grad and class.
Ref<> call_maker(PyObject* context, const torch_room::TensorMeta& meta) {
    auto to_tuple = [](const torch_room::Dims& dims) {
        Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
        for (std::size_t i = 0; i < dims.size(); ++i)
            PyTuple_SET_ITEM(tuple.get(), i, checked(PyLong_FromLongLong(dims[i].value())).release());
        return tuple;
    };
    return checked(PyObject_CallFunction(context, "OOiOO", to_tuple(meta.sizes).get(), to_tuple(meta.strides).get(),
                                         static_cast<int>(meta.dtype), meta.requires_grad ? Py_True : Py_False,
                                         reinterpret_cast<PyObject*>(meta.python_class)));
}

PyObject* finish(PyObject* self, PyObject* args) {
    PyObject* maker = Py_None;
    if (!PyArg_ParseTuple(args, "|O:finish", &maker)) return nullptr;
    return at_boundary([&] {
        graph_in(self).finish();
        std::unique_ptr<graph::Graph> graph(std::exchange(reinterpret_cast<BuilderObject*>(self)->graph, nullptr));
        graph::ExampleMaker example;
        if (PyCallable_Check(maker))
            example = {call_maker, nullptr, Ref<>::share(maker)};
        else if (maker != Py_None)
            example = graph::fake_tensors_in(maker);
        return graph::make_captured(std::move(graph), std::move(example));
    });
}

PyObject* new_builder(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) reinterpret_cast<BuilderObject*>(self)->graph = new graph::Graph();
    return self;
}

void dealloc_builder(PyObject* self) {
    delete reinterpret_cast<BuilderObject*>(self)->graph;
    Py_TYPE(self)->tp_free(self);
}

void dealloc_node(PyObject* self) {
    Py_DECREF(reinterpret_cast<NodeObject*>(self)->builder);
    PyObject_Free(self);
}

Py_ssize_t length(PyObject* self) {
    auto* graph = reinterpret_cast<BuilderObject*>(self)->graph;
    return graph == nullptr ? 0 : static_cast<Py_ssize_t>(graph->size());
}

PyObject* repr(PyObject* self) {
    return at_boundary([&] { return checked(PyUnicode_FromString(graph::print(graph_in(self)).c_str())); });
}

PyMethodDef kMethods[] = {
    {"add", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(add)), METH_VARARGS | METH_KEYWORDS,
     "add(kind, target, args=(), kwargs={}, ...): a node, to be used in the arguments of later ones."},
    {"name_after", name_after, METH_VARARGS, "name_after(node, variable): the program stored it there."},
    {"truncate", truncate, METH_O, "truncate(size): forget the nodes from there on."},
    {"finish", finish, METH_VARARGS,
     "finish(examples=None): the captured graph; the builder is empty then. Example values are made by a function or "
     "in a fake mode."},
    {nullptr, nullptr, 0, nullptr},
};

PySequenceMethods kSequence = {.sq_length = length};

PyTypeObject kBuilderType = {
    .ob_base = {PyObject_HEAD_INIT(nullptr) 0},
    .tp_name = "stator._testing.GraphBuilder",
    .tp_basicsize = sizeof(BuilderObject),
    .tp_dealloc = dealloc_builder,
    .tp_repr = repr,
    .tp_as_sequence = &kSequence,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Builds a graph, for tests.",
    .tp_methods = kMethods,
    .tp_new = new_builder,
};

PyTypeObject kNodeType = {
    .ob_base = {PyObject_HEAD_INIT(nullptr) 0},
    .tp_name = "stator._testing.GraphNode",
    .tp_basicsize = sizeof(NodeObject),
    .tp_dealloc = dealloc_node,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

}  // namespace

bool add_graph_builder_type(PyObject* module) {
    return PyModule_AddType(module, &kBuilderType) == 0 && PyModule_AddType(module, &kNodeType) == 0;
}

}  // namespace stator
