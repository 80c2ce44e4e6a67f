/// The small interface of the tracer that kinds of values need: wrap, call, push a frame, emit a node, guard, mutate,
/// raise, break. The trace room implements it.
#pragma once

#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "base/arena.h"
#include "effect/plan.h"
#include "guard/guard.h"
#include "shape/number_arguments.h"
#include "source/knowledge.h"
#include "torch/global_state.h"
#include "value/break.h"
#include "value/task.h"
#include "value/value.h"

namespace stator {

struct ConstantValue;
struct ExceptionValue;
struct FunctionValue;
struct GeneratorValue;
struct TensorValue;

/// A Python exception on its way through the traced program.
struct Raised {
    Value* exception;
    bool is(PyObject* exception_class) const {
        return PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(exception_class)) != 0;
    }
};

/// Thrown where the trace has changed what it began with, and has to be done again.
struct StartAgain {
    std::string reason;
};

/// A change of something that came from outside, as the plan will make it on the real object once the graph has run.
struct Effect {
    PlanOp op;                   // SetAttribute, SetItem, Append, Add, SetCell; or Call, whose result is dropped
    std::vector<Value*> from;    // what is changed comes first; null where something is deleted
    PyObject* object = nullptr;  // the name of an attribute, or what is called
    /// Of a call whose result the program keeps: the value of it, which makes the call where it is rebuilt.
    Value* result = nullptr;
};

class Tracer {
  public:
    virtual ~Tracer() = default;

    Arena& arena() { return arena_; }
    Provenance& provenance() { return provenance_; }

    /// Makes a value in the arena of this trace.
    template <class T, class... Args>
    T* make(Args&&... args) {
        return arena_.make<T>(std::forward<Args>(args)...);
    }
    /// Keeps an object alive for the trace.
    PyObject* keep(Ref<> object) { return arena_.keep(std::move(object)); }

    // --- values of objects ---------------------------------------------------------------------------------------

    /// The value of an object that came from outside. One outside object with an identity is one value.
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
    /// What `next` gives at the end of an iterator. Never stored by the program.
    Value* exhausted();

    /// Installs the guards of a value on its first use.
    void realize(Value* value) {
        if (!value->realized) realize_now(value);
    }

    // --- frames --------------------------------------------------------------------------------------------------

    /// Inlines a Python function: binds the arguments and pushes its frame.
    virtual Outcome push_call(FunctionValue* function, const Arguments& arguments) = 0;
    /// Goes on with a generator: its frame is pushed and delivers what it yields, or `exhausted()` when it returns.
    virtual Outcome push_generator(GeneratorValue* generator, Value* sent) = 0;
    /// Raises an exception in a generator, where it waits; delivers what it yields or `exhausted()`, as
    /// `push_generator`.
    virtual Outcome throw_into_generator(GeneratorValue* generator, Value* exception) = 0;
    /// Runs a task, at once if nothing in it has to wait.
    virtual Outcome start(Task task) = 0;
    /// The Python-level caller `depth` frames below the innermost: for `super()`, `globals()`, `locals()`.
    virtual Value* local_of_caller(Borrowed<> name) = 0;
    virtual Value* first_argument_of_caller() = 0;
    virtual Value* class_cell_of_caller() = 0;
    /// What an `except` block that is open by now has caught; null if none is.
    virtual Value* exception_in_handling() = 0;
    /// The function whose frame is innermost.
    virtual FunctionValue* running_function() = 0;
    /// Whether something that `torch.compile` made is called as it is, which keeps its backend. It is traced through
    /// where nothing may break, and where it is (the `forward` of) what was compiled here: the outermost compiler wins.
    virtual bool keeps_compiled_by_torch() = 0;

    // --- graph ---------------------------------------------------------------------------------------------------

    /// Adds an operation to the graph, infers its result and gives the value of it.
    virtual Value* emit_function(Borrowed<> function, const Arguments& arguments) = 0;
    virtual Value* emit_method(Borrowed<> name, const Arguments& arguments) = 0;
    /// An operation that is in the graph for its effect alone (a change of the grad mode, ...).
    virtual graph::Node* emit_effect(Borrowed<> function, const Arguments& arguments) = 0;
    /// The same for something that is either on or off: two changes with nothing in between are none.
    virtual void emit_switch(Borrowed<> function, const Arguments& arguments) = 0;
    /// What nodes point to lives as long as the graph, which outlives the trace.
    virtual Arena& graph_arena() = 0;
    virtual const graph::Graph& graph() const = 0;
    /// The placeholder of a tensor from outside.
    virtual graph::Node* input(TensorValue* tensor) = 0;
    // Whether the operation under construction gives the same kind of result for any number.
    bool takes_any_int() const { return takes_any_ == shape::AnyNumber::IntOrFloat; }
    bool takes_any_float() const { return takes_any_ != shape::AnyNumber::None; }
    /// A number that changes between calls (see symbolic.h), as an argument of such an operation.
    virtual graph::Argument number_argument(ConstantValue* value) = 0;
    /// `torch.select`, by an int within bounds that may change between calls.
    virtual TensorValue* emit_select(TensorValue* tensor, std::int64_t dimension, Value* index) = 0;
    /// `torch.narrow`: so many items from an int on, within bounds, that may change between calls.
    virtual TensorValue* emit_narrow(TensorValue* tensor, std::int64_t dimension, Value* start,
                                     std::int64_t length) = 0;
    /// The rows of a tensor, of which the program thinks that one `unbind` gave them.
    virtual void note_rows(TensorValue* base, const std::vector<Value*>& rows) = 0;
    /// Called for each tensor that becomes an argument of the node under construction, in order.
    void note_tensor_argument(TensorValue* tensor) { tensor_arguments_.push_back(tensor); }
    /// The modes of PyTorch as the program has set them so far.
    virtual torch_room::Modes modes() const = 0;
    /// The program asks for a setting of autocast, which may be off.
    virtual void rely_on_autocast() = 0;
    /// The program tells this object from others by its identity, as keys of sets do.
    virtual void tell_apart(const Value* value) = 0;
    /// A call whose arguments do not fit the function, for reports. The program gets a TypeError with these words.
    virtual void note_mismatch(FunctionValue* function, const std::string& words, const Arguments& arguments) = 0;
    virtual void set_modes(const torch_room::Modes& modes) = 0;

    // --- `__torch_function__` (see torch_function.h) ---------------------------------------------------------------

    /// Whether classes of tensors are asked what becomes of operations.
    bool asks_torch_functions() const { return asks_torch_functions_; }
    void ask_torch_functions(bool are_asked);
    /// While a class is asked the program can't go on for real in its middle: C code stands between.
    bool is_in_torch_function() const { return torch_functions_ > 0; }
    void begin_torch_function();
    void end_torch_function(bool are_asked);

    // --- what becomes of the graph ---------------------------------------------------------------------------------

    /// Who runs the graph. A compiler makes other code of it, and does not keep everything that autograd and inference
    /// mode would see of its operations.
    enum class RunBy { Stator, Compiler };
    RunBy run_by() const { return run_by_; }
    /// Whether the program wants one graph, so that breaking it is no way out.
    bool wants_one_graph() const { return wants_one_graph_; }
    /// The program was told that it is being compiled: it may fail for that where it would not have failed otherwise.
    void note_told_compiling() { told_compiling_ = true; }
    /// This graph must run as it was captured, operation by operation, whoever was to compile it.
    void keep_as_captured() { is_kept_as_captured_ = true; }

    // --- what runs later ------------------------------------------------------------------------------------------

    /// The operations from here on are not for this graph, but for one of their own that runs later on: a backward
    /// pass, or what is computed again for one. Numbers are constants in it, and what was there before is not written
    /// to.
    enum class LaterKind { Backward, Recomputed };
    virtual void begin_later(LaterKind kind) = 0;
    /// Whether such a graph is being captured: it has none of its own in it.
    virtual bool is_later() const = 0;
    struct Later {
        PyObject* runner;                 // runs that graph
        std::vector<TensorValue*> reads;  // what it takes behind its inputs: tensors that were there before
        // As of a node.
        bool has_effect = false;
        bool is_random = false;
        bool may_fail = false;
        bool is_seen = false;
        bool is_lasting = false;
        /// What the program's code would read when it runs later, and may be something else by then: a global variable,
        /// an attribute, ... Empty if there is nothing of the kind.
        std::string rereads;
    };
    /// Whether a tensor was made since.
    virtual bool is_made_later(const TensorValue* tensor) const = 0;
    /// Ends that, given the inputs of that graph, which were made since, and its outputs: tensors or None.
    virtual Later end_later(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) = 0;
    /// Whether such a graph is being captured that may run with gradients recorded or without.
    bool runs_in_any_grad_mode() const { return runs_in_any_grad_mode_; }
    void set_runs_in_any_grad_mode(bool runs);
    /// A node that gives these results, which stay the same objects to the program, a history in autograd.
    virtual void emit_history(Borrowed<> function, const Arguments& arguments,
                              std::span<TensorValue* const> results) = 0;
    /// A node that runs a part of the graph that was taken out of it, and gives these results of that part.
    virtual void emit_part(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results,
                           const Later& part) = 0;

    /// Which of the modes a context puts back when it is left. What it does not know of stays as the program has set
    /// it.
    enum class Restores { Nothing, Autograd, Autocast };
    /// A context of PyTorch that the graph enters and leaves.
    struct EnteredContext {
        Value* manager;
        PyObject* enter;  // enters it for real: `enter(manager)`, should the program go on inside of it
        PyObject* leave;  // what leaves it in the graph, given what entering it gave
        graph::Node* token;
        torch_room::Modes before;
        Restores restores;
    };
    void push_context(const EnteredContext& context);
    /// Leaves a context that was entered in the trace.
    void pop_context(Value* manager);

    // --- guards and effects --------------------------------------------------------------------------------------

    virtual void guard(Guard guard) = 0;
    /// Called when a value from outside changes, with what the plan has to do for it. The value models the change by
    /// itself. Breaks if replaying it would run the program's code.
    virtual void record(Effect effect) = 0;
    /// Called before a change that can't be replayed: breaks if the value came from outside.
    virtual void will_mutate(Value* value) = 0;
    /// The program asks a weak reference for this object: breaks unless the program still holds it somewhere, because
    /// what it has let go of inside the trace is not gone yet.
    virtual void expect_held(Value* value) = 0;
    /// Whether anything from outside has changed so far: until then, what is outside is what it was.
    bool has_recorded() const { return !effects_.empty(); }
    std::size_t recorded() const { return effects_.size(); }
    std::span<const Effect> effects() const { return effects_; }
    /// Whether a value from outside is no longer what it was.
    bool has_changed(const Value* value) const;
    /// The value of an outside object with an identity, if there is one already.
    Value* known(Borrowed<> object) const {
        auto found = by_identity_.find(object.get());
        return found == by_identity_.end() ? nullptr : found->second;
    }
    /// Registers how to take back a change of the model, should the instruction that makes it not succeed.
    template <class Undo>
    void on_undo(Undo undo) {
        struct Holder final : UndoStep {
            explicit Holder(Undo undo) : undo_(std::move(undo)) {}
            void run() override { undo_(); }
            Undo undo_;
        };
        undo_log_.push_back(arena_.make<Holder>(std::move(undo)));
    }

    // --- exceptions and breaks -----------------------------------------------------------------------------------

    /// Raises in the traced program.
    [[noreturn]] void raise(PyObject* exception_class, const std::string& message);
    /// Raises what a C API call left in the error indicator.
    [[noreturn]] void raise_from_python();
    /// Gives up on the current instruction.
    [[noreturn]] void break_graph(BreakKind kind, std::string reason);

  protected:
    struct UndoStep {
        virtual ~UndoStep() = default;
        virtual void run() = 0;
    };

    void realize_now(Value* value);

    std::vector<TensorValue*> tensor_arguments_;
    shape::AnyNumber takes_any_ = shape::AnyNumber::None;
    /// What earlier attempts have taught; null if nothing is known.
    const Knowledge* knowledge_ = nullptr;
    bool told_compiling_ = false;
    std::vector<EnteredContext> contexts_;
    bool runs_in_any_grad_mode_ = false;
    RunBy run_by_ = RunBy::Stator;
    bool wants_one_graph_ = false;
    bool is_kept_as_captured_ = false;
    bool asks_torch_functions_ = torch_room::are_torch_functions_asked();
    int torch_functions_ = 0;
    /// Sources outlive the trace, with the arena that they are in.
    std::unique_ptr<Arena> owned_arena_ = std::make_unique<Arena>();
    Arena& arena_ = *owned_arena_;
    Provenance provenance_{arena_};
    std::vector<UndoStep*> undo_log_;
    /// In the order in which the program did them.
    std::vector<Effect> effects_;
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
