/// The captured graph: nodes in order, each an operation as the program called it. A native data structure; `torch.fx`
/// is created from it on demand (graph/fx.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/ref.h"
#include "graph/names.h"
#include "number/expression.h"
#include "source/source.h"
#include "torch/meta.h"

namespace stator::graph {

struct Node;

/// One argument of a node: a node's result, a Python constant, or a container of arguments.
struct Argument {
    enum class Kind : std::uint8_t { Node, Constant, Tuple, List, Dict, Slice };
    struct Items;

    Kind kind = Kind::Constant;
    union {
        Node* node;
        PyObject* constant;  // kept alive by the graph's arena
        Items* items;
    };

    Argument() : constant(Py_None) {}
    static Argument of(Node* node);
    static Argument of_constant(Borrowed<> constant);
    static Argument of_items(Kind kind, Items* items);
};

/// The items of a container argument. A dict has keys besides values; a slice has start, stop and step.
struct Argument::Items {
    std::vector<Argument> values;
    std::vector<PyObject*> keys;  // only for Dict
    /// The class of the container, if it is not the plain one: `torch.Size`, a named tuple.
    PyTypeObject* type = nullptr;
};

struct KeywordArgument {
    PyObject* name;  // interned str
    Argument value;
};

/// The result of an operation, without data.
struct Result {
    enum class Kind : std::uint8_t { None, Tensor, Constant, Tuple, List };
    Kind kind = Kind::None;
    const torch_room::TensorMeta* tensor = nullptr;  // Tensor
    PyObject* constant = nullptr;                    // Constant: a number, a torch.Size, ...
    /// Constant: what computes the number in every call, of one that changes between calls. `constant` is what it is in
    /// this one. Tensor: the float that it holds, for an input that is a float.
    const Expression* expression = nullptr;
    std::vector<Result> items;     // Tuple, List
    PyTypeObject* type = nullptr;  // Tuple: a named tuple or structseq class, else null
    /// Index of the tensor argument (in order of appearance, containers flattened) that this result is, or -1. In-place
    /// operations return their first argument itself.
    int same_as_argument = -1;
};

/// Where in the program a node was created: innermost frame first. Shared between the nodes of one line.
struct Location {
    PyCodeObject* code = nullptr;
    int line = 0;
    const Location* caller = nullptr;
};

/// The modules around a node, innermost first.
struct ModulePath {
    const PathText* path = nullptr;  // `L['self']._modules['layers']._modules['0']`
    PyTypeObject* type = nullptr;
    const ModulePath* outer = nullptr;
    const void* module = nullptr;  // only the address, which consumers use as a key
    int earlier_calls = 0;         // how often it was called before in this graph
};

/// As consumers of `nn_module_stack` read it: `L['self'].layers.0`.
std::string print(const ModulePath& path);

enum class NodeKind : std::uint8_t {
#define NODE_KIND(name, word) name,
#include "graph/node_kinds.def"
#undef NODE_KIND
};

struct Node {
    NodeKind kind;
    std::uint32_t index = 0;   // position in the graph
    std::uint32_t serial = 0;  // the position before unused nodes were removed: the same if the program is traced again
    /// Function: the callable. Method: the method's name. Placeholder, Attribute: its name, a str. Null for a
    /// placeholder with a `path`, until the graph's names are needed.
    PyObject* target = nullptr;
    /// For a placeholder: the path from which its target is created. Lives in `Graph::texts`.
    const PathText* path = nullptr;
    std::string name;        // unique in the graph; created when names are needed
    std::string first_name;  // the name before it was renamed after a variable; empty if it was not
    std::vector<Argument> arguments;
    std::vector<KeywordArgument> keywords;
    Result result;
    std::uint32_t uses = 0;              // arguments of live nodes that are this node
    bool has_effect = false;             // stays even if nobody uses its result
    bool is_random = false;              // draws random numbers
    bool may_fail = false;               // stays too: with some contents the program ends here
    bool is_visible_to_program = false;  // the program can observe that it has run, even if no result of it is used
    bool is_lasting = false;  // and that can't be undone by putting back inputs and random numbers (capture/undo.h)
    bool is_named = false;    // a variable of the program gave it its name
    const Location* location = nullptr;
    const ModulePath* modules = nullptr;
    /// The node whose result shares its memory: this one is a view of it, or wrote to it. Null if it has its own
    /// memory.
    const Node* memory = nullptr;
    /// For an operation that may raise after a lasting effect: the nodes whose results the program still references
    /// there. They are kept until it has run. Null if there are none.
    const std::vector<Node*>* held = nullptr;
    /// For the placeholder of a tensor: the placeholders of the symbols in its sizes, strides and offset, which
    /// backends expect before it. Null if there are none.
    const std::vector<Node*>* symbols = nullptr;
    /// A dict of additional entries for `torch.fx`'s `Node.meta`, or null. Kept alive by the graph's arena.
    PyObject* extra_meta = nullptr;
};

inline const Node* memory_of(const Node* node) {
    return node->memory != nullptr ? node->memory : node;
}

/// `placeholder`, `call_function`, ...: the words of `torch.fx`.
const char* fx_word(NodeKind kind);

/// Calls `visit(Node*)` for every node in an argument, in order, containers included.
template <class Visit>
void for_each_node(const Argument& argument, const Visit& visit) {
    if (argument.kind == Argument::Kind::Node) {
        visit(argument.node);
    } else if (argument.kind != Argument::Kind::Constant) {
        for (const Argument& item : argument.items->values) for_each_node(item, visit);
    }
}

/// The same for all inputs of a node: arguments, then keywords.
template <class Visit>
void for_each_input(const Node& node, const Visit& visit) {
    for (const Argument& argument : node.arguments) for_each_node(argument, visit);
    for (const KeywordArgument& keyword : node.keywords) for_each_node(keyword.value, visit);
}

/// Nodes in execution order. Truncating to a mark undoes an instruction.
class Graph {
  public:
    Node* add(NodeKind kind, Borrowed<> target, std::vector<Argument> arguments,
              std::vector<KeywordArgument> keywords = {});
    std::size_t size() const { return nodes_.size(); }
    Node* at(std::size_t index) const { return nodes_[index]; }
    std::span<Node* const> nodes() const { return nodes_; }

    /// The program assigned this node's result to a variable: the node is named after the first one, as torch._dynamo
    /// does. Placeholders keep their names.
    void name_after(Node* node, std::string_view variable);

    /// Removes every node from `size` on, and names from variables since then.
    void truncate(std::size_t size);
    /// Moves the operations from `size` on out of the graph, in order. Placeholders and attributes stay. The nodes live
    /// as long as the graph.
    std::vector<Node*> take(std::size_t size);
    /// Puts placeholders first, and removes unused nodes without effects, including placeholders. To be called once,
    /// after the output node was added.
    void finish();
    bool is_finished() const { return is_finished_; }
    /// Names every node of a finished graph, on the first call. The names in a deep model are as long as its paths, and
    /// most graphs run without using them.
    void ensure_names() const;
    const Names& names() const {
        ensure_names();
        return names_;
    }

    Arena& arena() { return arena_; }
    const Arena& arena() const { return arena_; }
    /// The arena of the path texts: shared with users that may need a name after the graph is freed.
    const std::shared_ptr<Arena>& texts() const { return texts_; }

  private:
    /// A variable was assigned a node's result when the graph had `size` nodes: names are created in the order of
    /// events.
    struct Naming {
        Node* node;
        std::string variable;
        std::size_t size;
    };

    void remove_unused();
    /// Puts placeholders first, in the order of their creation, but symbols before the first tensor that uses them.
    void order_placeholders();

    mutable Arena arena_;
    std::shared_ptr<Arena> texts_ = std::make_shared<Arena>();
    std::vector<Node*> nodes_;
    mutable std::vector<Naming> namings_;
    mutable std::vector<Node*> unnamed_;  // of a finished graph, in order of creation, including removed ones
    mutable Names names_;
    bool is_finished_ = false;
};

/// One line a node: `%add = call_function operator.add(%x, 1) -> f32[4]`.
std::string print(const Graph& graph);
std::string print(const Node& node);
std::string print(const Argument& argument);
/// `torch.nonzero`, or the name of a method.
std::string operation_name(const Node& node);
/// `f32[8, 4]`, `(f32[8], i64[8])`.
std::string print(const Result& result);

}  // namespace stator::graph
