/// The interface of the tracer for values. `Tracer` itself makes values, guards, raises, breaks the graph and calls
/// functions; everything else is in the parts that it gives access to: the recorder of the graph, deferred graphs, the
/// log of side effects, the modes of PyTorch. The trace room implements it.
#pragma once

#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/arena.h"
#include "guard/guard.h"
#include "number/expressions.h"
#include "source/dynamic_policy.h"
#include "source/knowledge.h"
#include "value/break.h"
#include "value/size_marks.h"
#include "value/task.h"
#include "value/undo_log.h"
#include "value/value.h"

namespace stator {

class DeferredGraphs;
class EffectLog;
class Recorder;
class TorchModes;
struct FunctionValue;
struct GeneratorValue;

/// Thrown where the traced program raises a Python exception.
struct Raised {
    Value* exception;
    bool is(PyObject* exception_class) const {
        return PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(exception_class)) != 0;
    }
};

/// Thrown if tracing has changed an object that the trace has read already: the capture starts again.
struct StartAgain {
    std::string reason;
};

class Tracer {
  public:
    virtual ~Tracer() = default;

    Arena& arena() { return arena_; }
    Provenance& provenance() { return provenance_; }
    /// Numbers and sizes that change between calls, and the relations that the trace assumes between them.
    Expressions& numbers() { return numbers_; }

    /// Makes a value in the arena of this trace.
    template <class T, class... Args>
    T* make(Args&&... args) {
        return arena_.make<T>(std::forward<Args>(args)...);
    }
    /// Keeps an object alive for the trace.
    PyObject* keep(Ref<> object) { return arena_.keep(std::move(object)); }

    // --- parts of the tracer -------------------------------------------------------------------------------------

    Recorder& recorder() { return *recorder_; }
    DeferredGraphs& deferred_graphs() { return *deferred_graphs_; }
    EffectLog& effects() { return *effects_; }
    const EffectLog& effects() const { return *effects_; }
    TorchModes& modes() { return *modes_; }
    const TorchModes& modes() const { return *modes_; }

    // --- values of objects ---------------------------------------------------------------------------------------

    /// The value of an object that came from outside. Two sources of one object with an identity share its value.
    Value* outside(Source* source, Borrowed<> object);
    /// The value of an object that was computed while tracing and that nobody else holds.
    Value* fresh(Ref<> object);
    /// A constant, or any object that may be used without a guard (an immutable literal of the code).
    Value* constant(Borrowed<> object);
    /// The same for a literal of the program's code, which is one object in all calls, a tuple too.
    Value* literal(Borrowed<> object);
    Value* integer(std::int64_t number);
    Value* boolean(bool truth);
    Value* string(std::string_view text);
    Value* none();
    /// The result of `next` at the end of an iterator. The program never stores it.
    Value* exhausted();
    /// The value of an outside object with an identity, if the trace has read the object; else null.
    Value* known(Borrowed<> object) const {
        auto found = by_identity_.find(object.get());
        return found == by_identity_.end() ? nullptr : found->second;
    }

    /// Installs the guards of a value on its first use.
    void realize(Value* value) {
        if (!value->realized) realize_now(value);
    }
    void guard(Guard guard);
    /// The program distinguishes this object from others by its identity, for instance as an element of a set: a guard
    /// will compare the identities.
    void guard_distinct(const Value* value) {
        if (value->source != nullptr) distinct_.push_back(value->source);
    }

    // --- frames --------------------------------------------------------------------------------------------------

    /// Inlines a Python function: binds the arguments and pushes its frame.
    virtual Outcome push_call(FunctionValue* function, const Arguments& arguments) = 0;
    /// Resumes a generator: its frame is pushed and delivers the item that it yields, or `exhausted()` when it returns.
    virtual Outcome push_generator(GeneratorValue* generator, Value* sent) = 0;
    /// Raises an exception in a suspended generator. Delivers the same as `push_generator`.
    virtual Outcome throw_into_generator(GeneratorValue* generator, Value* exception) = 0;
    /// Runs a task until it awaits a frame, or to its end.
    virtual Outcome start(Task task) = 0;
    /// The function whose frame is innermost.
    virtual FunctionValue* running_function() = 0;
    /// The arguments that `super()` takes from the innermost frame.
    virtual Value* class_cell_of_caller() = 0;
    virtual Value* first_argument_of_caller() = 0;
    /// The exception that the innermost open `except` block has caught; null if there is none.
    virtual Value* exception_in_handling() = 0;
    /// Whether a function that `torch.compile` made is called as it is, with its own backend. It is inlined if no graph
    /// break is allowed, and if it is (the `forward` of) the compiled callable itself: the outermost compiler wins.
    virtual bool keeps_compiled_by_torch() = 0;

    // --- the request ---------------------------------------------------------------------------------------------

    /// Who runs the graph. A compiler does not keep everything that autograd and inference mode would see of the
    /// operations.
    enum class RunBy : std::uint8_t { Stator, Compiler };
    RunBy run_by() const { return run_by_; }
    /// Whether graph breaks are errors (`fullgraph=True`).
    bool wants_one_graph() const { return wants_one_graph_; }
    /// What earlier attempts have learned.
    const Knowledge& knowledge() const { return *knowledge_; }
    /// `is_compiling()` was True for the program. If the program raises later on, that may be the reason.
    void note_compiling_was_true() { is_compiling_was_true_ = true; }

    /// Whether numbers that are read from tensors (`item()`) are captured as numbers that only the graph knows.
    bool captures_scalars() const { return captures_scalars_; }
    /// The same for operations whose results have such sizes: `nonzero`, a mask as index.
    bool captures_data_sizes() const { return captures_data_sizes_; }
    /// Which numbers and sizes of tensors may be symbols.
    const DynamicPolicy& dynamic() const { return dynamic_; }
    /// Whether the number at this source had another value in another call, and may be a symbol because of that.
    bool has_changed(const Source& number) const;
    /// Why the number at this source is a symbol; nothing if it is a constant.
    std::optional<SymbolOrigin> origin_of_number(const Source& number) const;
    void set_origin(const Expression* symbol, SymbolOrigin origin) { origins_.emplace(symbol, origin); }
    SymbolOrigin origin_of(const Expression* symbol) const {
        auto found = origins_.find(symbol);
        return found == origins_.end() ? SymbolOrigin::Changed : found->second;
    }
    /// A size that the user has marked as dynamic, within a range: specializing it is an error.
    void require_dynamic(const Expression* size, Range range);
    /// What the user has said about a size: empty at first.
    SizeMark& mark_of(const Expression* size) { return size_marks_[size]; }
    /// Sizes of inputs that are unbacked numbers.
    const std::vector<UnbackedSize>& unbacked_sizes() const { return unbacked_sizes_; }
    void add_unbacked_size(UnbackedSize size) { unbacked_sizes_.push_back(std::move(size)); }
    /// The sizes of this call are not what the user has said: an error when the trace has ended.
    void note_broken_mark(std::string text) { broken_mark_ = std::move(text); }

    // --- exceptions, breaks, rolling back ------------------------------------------------------------------------

    /// Raises in the traced program.
    [[noreturn]] void raise(PyObject* exception_class, const std::string& message);
    /// Raises the exception that a C API call left in the error indicator.
    [[noreturn]] void raise_from_python();
    /// Gives up on the current instruction.
    [[noreturn]] void break_graph(BreakKind kind, std::string reason);
    /// Registers how to undo a change of symbolic state if the current instruction can't be captured.
    template <class Undo>
    void on_undo(Undo undo) {
        undo_log_.add(arena_, std::move(undo));
    }

  protected:
    Tracer(const Knowledge& knowledge, RunBy run_by, bool wants_one_graph, const DynamicPolicy& dynamic)
        : knowledge_(&knowledge), run_by_(run_by), wants_one_graph_(wants_one_graph), dynamic_(dynamic) {}

    void realize_now(Value* value);
    /// Guards a condition on numbers that change between calls.
    virtual void guard_relation(const Expression& condition);
    /// Breaks the graph: the trace needs to know a number, or the outcome of a comparison, that depends on data.
    [[noreturn]] virtual void ask(const Expression& question);

    // Set by the constructor of the implementation.
    Recorder* recorder_ = nullptr;
    DeferredGraphs* deferred_graphs_ = nullptr;
    EffectLog* effects_ = nullptr;
    TorchModes* modes_ = nullptr;

    const Knowledge* knowledge_;
    RunBy run_by_;
    bool wants_one_graph_;
    DynamicPolicy dynamic_;
    bool captures_scalars_ = false;
    bool captures_data_sizes_ = false;
    bool is_compiling_was_true_ = false;
    /// Sources outlive the trace, with the arena that they are in.
    std::unique_ptr<Arena> owned_arena_ = std::make_unique<Arena>();
    Arena& arena_ = *owned_arena_;
    Provenance provenance_{arena_};
    /// Shared with the graph: the metadata of its nodes have expressions.
    std::shared_ptr<Arena> number_arena_ = std::make_shared<Arena>();
    Expressions numbers_{*number_arena_, [this](const Expression& condition) { guard_relation(condition); },
                         [this](const Expression& question) { ask(question); }};
    std::unordered_map<const Expression*, SizeMark> size_marks_;
    std::vector<UnbackedSize> unbacked_sizes_;
    std::string broken_mark_;
    std::unordered_map<const Expression*, SymbolOrigin> origins_;
    UndoLog undo_log_;
    std::vector<Guard> guards_;
    std::vector<Source*> distinct_;
    /// Outside objects with an identity of their own, by address.
    std::pmr::monotonic_buffer_resource memory_{std::size_t{16} * 1024};
    std::pmr::unordered_map<PyObject*, Value*> by_identity_{256, &memory_};
    /// Tuples that are literals of the program's code: however often one is loaded, it is one object.
    std::unordered_map<PyObject*, Value*> literals_;
    Value* none_ = nullptr;
    Value* booleans_[2] = {};
    Value* exhausted_ = nullptr;
};

}  // namespace stator
