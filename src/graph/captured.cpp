#include "graph/captured.h"

#include <array>
#include <string>

#include "base/python_error.h"
#include "base/text.h"
#include "torch/fake.h"

namespace stator::graph {

namespace {

bool lies_in_nn_modules(std::string_view file) {
    return file.find("torch/nn/modules") != std::string_view::npos;
}

/// The source line without its indentation, or an empty string.
Ref<> source_line(Borrowed<> file, int line) {
    Ref<> linecache = checked(PyImport_ImportModule("linecache"));
    Ref<> text = checked(PyObject_CallMethod(linecache.get(), "getline", "Oi", file.get(), line));
    return checked(PyObject_CallMethod(text.get(), "strip", nullptr));
}

/// In `source_fn_stack`, `torch.nn` layers other than containers replace their operations.
bool is_layer(Borrowed<PyTypeObject> type) {
    std::string name = type_name(type);
    if (name.starts_with("torch.nn.modules.container")) return false;
    return name.starts_with("torch.nn.modules") || name.starts_with("torch.ao.");
}

bool is_getitem(Borrowed<> target) {
    static PyObject* getitem = nullptr;
    if (getitem == nullptr) {
        Ref<> module = checked(PyImport_ImportModule("_operator"));
        getitem = checked(PyObject_GetAttrString(module.get(), "getitem")).release();
    }
    return target == getitem;
}

/// The node whose example value a result is: in-place operations return one of their arguments.
const Node* same_node(const Node& node) {
    const Node* found = nullptr;
    int position = 0;
    for_each_input(node, [&](const Node* input) {
        if (input->result.kind == Result::Kind::Tensor && position++ == node.result.same_as_argument) found = input;
    });
    return found;
}

}  // namespace

ExampleMaker fake_tensors_in(Borrowed<> fake_mode) {
    auto make = [](PyObject* mode, const torch_room::TensorMeta& meta) { return torch_room::make_fake(mode, meta); };
    return {make, nullptr, Ref<>::share(fake_mode.get())};
}

PyObject* fact_key(Fact fact) {
    static const std::array<PyObject*, kFactCount> keys = {
        PyUnicode_InternFromString("nn_module_stack"), PyUnicode_InternFromString("source_fn_stack"),
        PyUnicode_InternFromString("stack_trace"), PyUnicode_InternFromString("example_value")};
    return keys[static_cast<std::size_t>(fact)];
}

bool Captured::has(const Node& node, Fact fact) const {
    switch (fact) {
        case Fact::NnModuleStack:
            return node.modules != nullptr;
        case Fact::SourceFnStack:
            return node.kind == NodeKind::Function || node.kind == NodeKind::Method;
        case Fact::StackTrace:
            return node.location != nullptr;
        case Fact::ExampleValue:
            return node.result.kind != Result::Kind::None && maker_.make != nullptr;
    }
    return false;
}

Ref<> Captured::fact(const Node& node, Fact fact) {
    if (facts_.empty()) facts_.resize(graph_->size() * kFactCount);
    std::size_t place = node.index * kFactCount + static_cast<std::size_t>(fact);
    if (!facts_[place]) {
        Ref<> made = make(node, fact);
        // Creating it runs Python, which may have created the same one, or collected garbage.
        if (facts_.empty()) return made;
        if (!facts_[place]) facts_[place] = std::move(made);
    }
    return facts_[place];
}

Ref<> Captured::make(const Node& node, Fact fact) {
    switch (fact) {
        case Fact::NnModuleStack:
            return module_stack(node);
        case Fact::SourceFnStack:
            return source_functions(node);
        case Fact::StackTrace:
            return stack_trace(node.location);
        case Fact::ExampleValue:
            return example_value(node);
    }
    return Ref<>::share(Py_None);
}

/// Outermost first: `{key: (path, class)}`. The key is the module's id, with `@1` at its second call, and so on.
Ref<> Captured::module_stack(const Node& node) {
    std::vector<const ModulePath*> paths;
    for (const ModulePath* path = node.modules; path != nullptr; path = path->outer) paths.push_back(path);
    Ref<> stack = checked(PyDict_New());
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
        Ref<>& known = modules_[*path];
        if (!known) {
            std::string text = print(**path);
            Ref<> name = checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
            std::string key = std::to_string(reinterpret_cast<std::uintptr_t>((*path)->module));
            if ((*path)->earlier_calls > 0) key += "@" + std::to_string((*path)->earlier_calls);
            known =
                checked(Py_BuildValue("s(OO)", key.c_str(), name.get(), reinterpret_cast<PyObject*>((*path)->type)));
        }
        checked(PyDict_SetItem(stack.get(), PyTuple_GET_ITEM(known.get(), 0), PyTuple_GET_ITEM(known.get(), 1)));
    }
    return stack;
}

Ref<> Captured::source_functions(const Node& node) {
    graph_->ensure_names();
    const std::string& name = node.first_name.empty() ? node.name : node.first_name;
    bool in_layer = node.modules != nullptr && is_layer(node.modules->type);
    PyObject* what = in_layer ? reinterpret_cast<PyObject*>(node.modules->type) : node.target;
    Ref<> own = checked(Py_BuildValue("[(sO)]", name.c_str(), what));
    if (operation_ == nullptr) return own;
    return checked(
        PySequence_Concat(captured_of(around_.get())->fact(*operation_, Fact::SourceFnStack).get(), own.get()));
}

void Captured::set_around(Ref<> around, const Node* operation) {
    around_ = std::move(around);
    operation_ = operation;
}

/// Innermost frame last, as Python's tracebacks. The insides of `torch.nn` layers are left out, as in torch._dynamo.
Ref<> Captured::stack_trace(const Location* location) {
    Ref<>& known = stack_traces_[location];
    if (known) return known;
    Ref<> text = checked(PyUnicode_FromString(""));
    for (const Location* frame = location; frame != nullptr; frame = frame->caller) {
        PyObject* file = frame->code->co_filename;
        if (lies_in_nn_modules(utf8(file))) continue;
        Ref<> line = source_line(file, frame->line);
        Ref<> entry =
            checked(PyUnicode_FromFormat("  File \"%U\", line %d, in %U\n", file, frame->line, frame->code->co_name));
        if (PyUnicode_GetLength(line.get()) > 0)
            entry = checked(PyUnicode_FromFormat("%U    %U\n", entry.get(), line.get()));
        text = checked(PyUnicode_Concat(entry.get(), text.get()));
    }
    stack_traces_[location] = text;
    return text;
}

Ref<> Captured::example_value(const Node& node) {
    if (node.result.same_as_argument >= 0)
        if (const Node* same = same_node(node)) return fact(*same, Fact::ExampleValue);
    bool takes_item = node.kind == NodeKind::Function && node.arguments.size() == 2 && is_getitem(node.target);
    if (takes_item && node.arguments[0].kind == Argument::Kind::Node) {
        const Node& container = *node.arguments[0].node;
        bool is_sequence = container.result.kind == Result::Kind::Tuple || container.result.kind == Result::Kind::List;
        if (is_sequence && node.arguments[1].kind == Argument::Kind::Constant)
            return checked(PyObject_GetItem(fact(container, Fact::ExampleValue).get(), node.arguments[1].constant));
    }
    return example_of(node.result);
}

Ref<> Captured::example_of(const Result& result) {
    switch (result.kind) {
        case Result::Kind::None:
            return Ref<>::share(Py_None);
        case Result::Kind::Constant:
            if (result.expression != nullptr && maker_.make_number != nullptr)
                return maker_.make_number(maker_.context.get(), *result.expression);
            return Ref<>::share(result.constant);
        case Result::Kind::Tensor: {
            Ref<> fake = maker_.make(maker_.context.get(), *result.tensor);
            // As torch._dynamo does: what `item()` of the FakeTensor returns.
            if (result.expression != nullptr && maker_.make_number != nullptr)
                checked(PyObject_SetAttrString(fake.get(), "item_memo",
                                               maker_.make_number(maker_.context.get(), *result.expression).get()));
            return fake;
        }
        case Result::Kind::Tuple:
        case Result::Kind::List:
            break;
    }
    Ref<> items = checked(PyList_New(0));
    for (const Result& item : result.items) checked(PyList_Append(items.get(), example_of(item).get()));
    if (result.kind == Result::Kind::List) return items;
    Ref<> tuple = checked(PyList_AsTuple(items.get()));
    if (result.type == nullptr || result.type == &PyTuple_Type) return tuple;
    auto* type = reinterpret_cast<PyObject*>(result.type);
    bool is_named_tuple = PyObject_HasAttrString(type, "_fields") != 0;
    return checked(is_named_tuple ? PyObject_CallObject(type, tuple.get()) : PyObject_CallOneArg(type, tuple.get()));
}

int Captured::traverse(visitproc visit, void* arg) const {
    Py_VISIT(maker_.context.get());
    Py_VISIT(around_.get());
    for (const Ref<>& fact : facts_) Py_VISIT(fact.get());
    for (const auto& [location, text] : stack_traces_) Py_VISIT(text.get());
    for (const auto& [path, entry] : modules_) Py_VISIT(entry.get());
    return graph_->arena().visit_kept([&](PyObject* object) { return visit(object, arg); });
}

void Captured::forget_facts() {
    // Nodes point into the arena, so it is freed with the graph.
    std::vector<Ref<>> facts = std::move(facts_);
    facts_.clear();
    Ref<> context = std::move(maker_.context);
}

namespace {

struct CapturedObject {
    PyObject ob_base;
    Captured* captured;
};

Captured& captured_in(PyObject* self) {
    return *reinterpret_cast<CapturedObject*>(self)->captured;
}

void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    delete reinterpret_cast<CapturedObject*>(self)->captured;
    PyObject_GC_Del(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    return captured_in(self).traverse(visit, arg);
}

int clear(PyObject* self) {
    captured_in(self).forget_facts();
    return 0;
}

PyObject* text_of(PyObject* self) {
    std::string text = print(captured_in(self).graph());
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

Py_ssize_t length(PyObject* self) {
    return static_cast<Py_ssize_t>(captured_in(self).graph().size());
}

PySequenceMethods kSequence = {.sq_length = length};

PyTypeObject kCapturedType = {
    .ob_base = {PyObject_HEAD_INIT(nullptr) 0},
    .tp_name = "stator._C.Graph",
    .tp_basicsize = sizeof(CapturedObject),
    .tp_dealloc = dealloc,
    .tp_repr = text_of,
    .tp_as_sequence = &kSequence,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A captured graph, before it becomes a torch.fx one.",
    .tp_traverse = traverse,
    .tp_clear = clear,
};

}  // namespace

Ref<> make_captured(std::unique_ptr<Graph> graph, ExampleMaker maker) {
    auto captured = std::make_unique<Captured>(std::move(graph), std::move(maker));
    auto* object = PyObject_GC_New(CapturedObject, &kCapturedType);
    if (object == nullptr) throw PythonError();
    object->captured = captured.release();
    PyObject_GC_Track(object);
    return Ref<>::steal(reinterpret_cast<PyObject*>(object));
}

Captured* captured_of(Borrowed<> object) {
    return Py_IS_TYPE(object.get(), &kCapturedType) ? &captured_in(object) : nullptr;
}

bool add_captured_type(PyObject* module) {
    return PyModule_AddType(module, &kCapturedType) == 0;
}

}  // namespace stator::graph
