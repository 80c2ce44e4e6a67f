/// The tracer: interprets bytecode over values. One loop, no recursion: an inlined call pushes a frame.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "effect/plan.h"
#include "graph/node.h"
#include "torch/global_state.h"
#include "trace/frame.h"
#include "trace/trace.h"
#include "value/tracer.h"

namespace stator {

class Interpreter final : public Tracer {
  public:
    Interpreter(const TraceRequest& request, const Knowledge& knowledge);
    ~Interpreter() override;

    /// Interprets the program and plans how to leave it. Throws StartAgain, and PythonError for a KeyboardInterrupt.
    void run();
    TraceEnd end() const { return end_; }
    /// After a break: the outermost function among those that were being inlined that it would have been better to call
    /// as a whole, because it computes with other things than tensors. Null if there is none.
    PyCodeObject* function_without_tensors() const;
    /// To be called once, at the end.
    Trace take_trace();

    bool keeps_compiled_by_torch() override;
    void note_mismatch(FunctionValue* function, const std::string& words, const Arguments& arguments) override;

    // --- the interface for values ---
    Outcome push_call(FunctionValue* function, const Arguments& arguments) override;
    Outcome push_generator(GeneratorValue* generator, Value* sent) override;
    Outcome throw_into_generator(GeneratorValue* generator, Value* exception) override;
    Outcome start(Task task) override;
    Value* local_of_caller(Borrowed<> name) override;
    Value* first_argument_of_caller() override;
    Value* class_cell_of_caller() override;
    Value* emit_function(Borrowed<> function, const Arguments& arguments) override;
    Value* emit_method(Borrowed<> name, const Arguments& arguments) override;
    graph::Node* emit_effect(Borrowed<> function, const Arguments& arguments) override;
    void emit_switch(Borrowed<> function, const Arguments& arguments) override;
    Arena& graph_arena() override { return graph_->arena(); }
    const graph::Graph& graph() const override { return *graph_; }
    graph::Node* input(TensorValue* tensor) override;
    graph::Argument number_argument(ConstantValue* value) override;
    TensorValue* emit_select(TensorValue* tensor, std::int64_t dimension, Value* index) override;
    TensorValue* emit_narrow(TensorValue* tensor, std::int64_t dimension, Value* start, std::int64_t length) override;
    void note_rows(TensorValue* base, const std::vector<Value*>& rows) override;
    bool is_later() const override { return later_.has_value(); }
    bool is_made_later(const TensorValue* tensor) const override;
    void begin_later(LaterKind kind) override;
    Later end_later(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) override;
    void emit_history(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results) override;
    void emit_part(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results,
                   const Later& part) override;
    torch_room::Modes modes() const override { return modes_; }
    void rely_on_autocast() override { reads_autocast_ = true; }
    void tell_apart(const Value* value) override {
        if (value->source != nullptr) told_apart_.push_back(value->source);
    }
    void set_modes(const torch_room::Modes& modes) override;
    void guard(Guard guard) override;
    void record(Effect effect) override;
    void will_mutate(Value* value) override;
    void expect_held(Value* value) override;
    FunctionValue* running_function() override;
    Value* exception_in_handling() override { return handled_exception(); }

    // --- the interface for opcode handlers ---

    /// Ends the instruction with a result: takes `pops` operands off the stack and does `complete` (by default: pushes
    /// the result), now or when the outcome is there.
    void finish(BytecodeFrame& frame, Outcome outcome, int pops, Completion complete = push_result);
    void complete_instruction(BytecodeFrame& frame, int pops, Completion complete, Value* result);
    static void push_result(Interpreter&, BytecodeFrame&, const bytecode::Instruction&, Value*);
    static void drop_result(Interpreter&, BytecodeFrame&, const bytecode::Instruction&, Value*);

    /// The frame on top ends with a value.
    void return_from_frame(BytecodeFrame& frame, Value* value);
    void yield_from_frame(BytecodeFrame& frame, Value* value);
    /// Whether the frame that was entered is a generator's: it is left at its next `yield`.
    bool is_entered_generator(const BytecodeFrame& frame) const {
        return entered_generator_ && &frame == frames_.front();
    }
    /// Makes the generator of a frame that has just started, and ends the call with it.
    void suspend_as_generator(BytecodeFrame& frame);

    /// Called at each backward jump: lets Ctrl-C through, and gives up on loops without end.
    void count_loop();

    Value* null() { return null_; }
    /// What `raise` alone raises again, and what is the context of a new exception: handled by this frame, or by one
    /// that waits for it.
    Value* handled_exception();
    /// What this frame handles, or one that called it; a generator starts without.
    Value* handled_here();  // or None
    void set_handled_exception(Value* exception);
    /// The variable of the program that just got this value, for the names of nodes.
    void name_after(Value* value, Borrowed<> variable);

  private:
    /// Lets the arguments of a module's call print as those of its `forward`.
    void label_arguments(PyObject* const* slots);
    void interpret();
    void step_until_interrupted();
    /// Takes back what the instruction that does not succeed has done, and gives up what stands above its frame.
    void roll_back();
    /// Whether anything open may catch an exception that the innermost frame raises.
    bool may_be_caught(Value* exception) const;
    void leave_task(TaskFrame& frame);
    void enter_task(TaskFrame& frame);
    void deliver(Value* value);
    void unwind(Value* exception);
    void note_in_traceback(BytecodeFrame& frame, ExceptionValue* exception);
    BytecodeFrame* new_frame(FunctionValue* function);
    void pop_frame();
    Outcome throw_here(GeneratorValue* generator, Value* exception);
    Task throw_through_delegate(GeneratorValue* generator, GeneratorValue* delegate, Value* exception);
    void enter_generator(GeneratorValue* generator);
    void leave_generator(GeneratorValue* generator);
    BytecodeFrame* innermost() const;
    /// Breaks if the function is to be called as a whole.
    void expect_followed(FunctionValue* function);
    void record_break(const Break& reason);
    /// Whether the trace is to end before the node that is next. A part is another object in each trace.
    bool is_to_stop(Borrowed<> target, bool is_part = false);
    /// Breaks if a tensor, or what it is a view of, is computed again in the backward pass.
    void expect_not_recomputed(const TensorValue* written);
    Value* emit(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments, shape::AnyNumber takes_any);
    bool is_protected(TensorValue* tensor, bool is_recorded);
    /// From now on these tensors are the parts of what a node gives.
    void give_results(graph::Node* node, std::span<TensorValue* const> results,
                      std::span<const torch_room::TensorMeta* const> metas);
    /// Whether a node was there before what runs later.
    bool predates_later(const graph::Node* node) const;
    /// Notes what an instruction of a part that runs later reads, if that may be something else by then: from which
    /// object, before the instruction, and which value, behind it. `owner` is the object whose attribute it read.
    void note_reread_object(const BytecodeFrame& frame, const bytecode::Instruction& instruction);
    void note_reread_value(const BytecodeFrame& frame, const bytecode::Instruction& instruction, const Value* owner);
    void note_reread_made(const BytecodeFrame& frame, const bytecode::Instruction& instruction, const Value* value);
    void step_later(BytecodeFrame& frame, const bytecode::Instruction& instruction);
    using HeldValues = std::unordered_set<const Value*>;
    /// What the program can still reach once the instruction is done for which the part is captured that runs later.
    HeldValues within_reach_of_the_program() const;
    /// Notes it if the part reads what the trace has made and the program may still change.
    void check_read_made();
    /// Breaks if what runs later would write to what was there before.
    void expect_own(const TensorValue* written);
    /// Breaks, and gives up what was captured, if a row that iterating gave is behind a tensor.
    static void expect_no_row(const TensorValue* tensor);
    void expect_no_object(const TensorValue* tensor);
    /// What a node gives to the world outside the graph.
    graph::Node* as_output(graph::Node* node, bool is_return);
    void note_view(Value* view, TensorValue* base);
    // Views that autograd treats apart, in a graph for a compiler: autograd_views.cpp.
    void note_autograd_view(const TensorValue* view, const TensorValue* base);
    void note_same_view(const graph::Node* before, const graph::Node* after);
    void note_write_to_views(const TensorValue* written);
    /// Whether memory was written to since a view of it was made: autograd then refuses the view.
    bool is_refused_view(const graph::Node* node) const;
    void keep_refused_views(std::span<TensorValue* const> arguments);
    void keep_views_among_outputs(const graph::Argument::Items& outputs);
    /// Before a break at a write that autograd refuses: the view has to be what it is without a compiler.
    void keep_view_for_write(const TensorValue* written);
    /// `tensors` are the arguments of the node, numbered as in its answer.
    Value* value_of(graph::Node* node, const graph::Result& result, std::span<TensorValue* const> tensors);
    std::vector<graph::Argument> arguments_of(const Arguments& arguments,
                                              std::vector<graph::KeywordArgument>* keywords);
    const graph::Location* current_location();
    /// The modules around the innermost frame; null if there are none.
    const graph::ModulePath* current_modules() const;
    /// The modules around a call that the innermost frame makes.
    const graph::ModulePath* modules_for(FunctionValue* function, const Arguments& arguments);
    /// The node of a tensor that the graph module will hold, instead of an input.
    graph::Node* add_attribute(TensorValue* tensor);
    /// A new input of the graph; its result is left to the caller.
    graph::Node* add_placeholder(Source* source);

    // Numbers that change between calls, in the graph: numbers.cpp.
    bool has_variables() const { return !later_ && (is_resumed_ || !knowledge_->changing_numbers.empty()); }
    shape::AnyNumber any_number(graph::NodeKind kind, Borrowed<> target) const;
    /// What an operation that takes any float does with it.
    enum class FloatUse : std::uint8_t {
        Computes,          // arithmetic and comparisons: nothing is too large
        Converts,          // to the dtype of floats, which raises for what is too large
        ConvertsToInteger  // each dtype has its own bounds, and NaN is beyond them
    };
    FloatUse float_use(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments);
    graph::Node* number_node(const Expression& expression);
    /// The ints that say where in its storage the result of a node begins; null if that is known.
    const std::vector<ConstantValue*>* movers_of(const graph::Node* node) const;
    /// Before an operation that may need to know where its arguments begin: realizes those ints.
    void settle_offsets(graph::NodeKind kind, Borrowed<> target);
    void note_offset(graph::Node* node, bool is_view);

    /// The plan of a program that returned, and of one that goes on in the open frames.
    void build_return();
    void build_exit();
    void finish_plan(PlanBuilder plan, bool is_return);
    void rebuild_modes(PlanBuilder& plan, bool is_return);
    void add_frames(PlanBuilder& plan);
    /// Adds what the program did to objects from outside to the plan.
    void replay_effects(PlanBuilder& plan);
    /// Sources of objects that the trace took for different ones, where one of them was changed.
    void add_distinct(std::vector<Source*>& sources) const;
    void note_write(const TensorValue* tensor, bool is_recorded);
    /// An operation whose effects are known by now. `is_lasting` says that it does more than to write and to draw.
    void note_lasting(graph::Node* node, bool is_lasting);
    const std::vector<graph::Node*>* held_by_program();
    /// Keeps the graph from compilers if autograd records a write to an input in a way that they do not follow.
    void note_recorded_write(const TensorValue* tensor);
    bool may_give_back_inputs() const;
    /// Marks what a backward pass must not compute again from inputs that the graph writes to.
    void save_what_reads_overwritten();
    /// Breaks if a generator that the plan does not rebuild was left inside a `try` or `with`: CPython runs the rest of
    /// those when it goes.
    void check_given_up_generators(const PlanBuilder& plan);

    // Objects that the program lets go: lifetimes.cpp.
    struct Staying;
    Staying all_stay() const;
    /// Whether a place outside holds what it held when the trace began.
    bool holds_still(const Source& place) const;
    /// Whether something can still be reached from where the trace began; `held` has more places to begin at.
    bool is_in_place(const Source* place, const HeldValues* held) const;
    void add_frame_roots(const Staying& staying, std::vector<const Value*>& roots) const;
    /// What the program holds in frames, and in what the trace has changed.
    HeldValues held_values(const Staying& staying) const;
    HeldValues held_from(std::vector<const Value*> roots) const;
    bool dies_quietly(PyObject* object) const;
    std::string describe_finalizer(PyObject* object) const;
    /// A value that may lose what held it.
    void watch(Value* value);
    void watch_frame();
    /// An effect takes what a place held away from it. Breaks if nothing else in the program is known to hold that, and
    /// freeing it runs code.
    void note_replaced(const Effect& effect);
    void note_replaced_item(Value* dict, PyObject* real, Value* key);
    void note_contents(Value* holder, PyObject* real);
    void replace(LetGo::Place place, Value* holder, PyObject* key, PyObject* old);
    /// A watched value that nothing holds, and that runs code when it is freed; null if there is none.
    Value* find_lost(const Staying& staying);
    [[noreturn]] void refuse_to_lose(const Value* lost);
    void expect_nothing_lost_after(BytecodeFrame& frame);
    void expect_nothing_lost_by_return(BytecodeFrame& frame, const bytecode::Instruction& instruction);
    void expect_nothing_lost_by(Value* exception);
    /// Notes for the plan what the program holds no longer.
    void note_let_go();

    std::unique_ptr<graph::Graph> graph_ = std::make_unique<graph::Graph>();
    std::vector<Activation*> frames_;
    std::vector<BytecodeFrame*> free_frames_;
    std::size_t open_tasks_ = 0;
    /// Tasks of which only the coroutine knows how they go on. While there is one, what happens above it belongs to the
    /// instruction that started it.
    std::size_t opaque_tasks_ = 0;
    /// Where the instruction under way started.
    struct Mark {
        std::size_t graph_size = 0;
        std::size_t depth = 0;  // of `frames_`
    };
    Mark mark_;
    std::optional<TraceRequest::Stop> stop_;
    bool has_stopped_ = false;
    bool broke_in_callback_ = false;
    bool entered_generator_ = false;
    bool is_resumed_ = false;  // the trace starts in the middle of its frame
    bool followed_compiled_by_torch_ = false;
    std::size_t depth_limit_ = 0;
    std::uint64_t shape_ticks_ = 0;
    double decoding_seconds_ = 0;
    std::vector<Guard> guards_;
    std::vector<Source*> inputs_;
    std::vector<graph::Node*> input_nodes_;
    struct Row {
        graph::Node* base;
        const graph::Node* first;  // of the rows that were made together
        std::size_t index;
        bool with_grad;
        bool needs_gradient;
    };
    std::unordered_map<const graph::Node*, Row> rows_;
    std::unordered_map<const graph::Node*, graph::Node*> unbound_;
    std::unordered_map<const Expression*, graph::Node*> number_nodes_;
    std::unordered_map<const graph::Node*, std::vector<ConstantValue*>> movers_;
    std::vector<ConstantValue*> integer_arguments_;  // of the node under construction
    FloatUse float_use_ = FloatUse::Computes;        // by it
    /// Operations under capture that run later.
    struct LaterPart {
        std::size_t start;  // in the graph
        LaterKind kind;
        std::vector<std::pair<const graph::Node*, TensorValue*>> read;
        std::string rereads;  // see `Later`
        /// A container, an object or a variable that it read and that was made in the trace.
        struct ReadMade {
            const Value* value;
            PyCodeObject* code;
            int line;
        };
        std::vector<ReadMade> read_made;
    };
    std::optional<LaterPart> later_;
    std::unordered_set<const TensorValue*> recomputed_;  // what parts gave that are computed again
    std::unordered_map<const Source*, int> module_calls_;
    std::unordered_map<PyObject*, bool> is_left_to_python_;  // by the globals of functions
    bool registers_attributes_ = false;
    graph::Names attribute_names_;
    std::vector<Attribute> attributes_;
    torch_room::Modes modes_;
    bool reads_autocast_ = false;
    std::vector<MismatchedCall> mismatched_calls_;
    std::vector<Source*> told_apart_;
    /// A view to which autograd lets nothing be written while it records.
    struct AutogradView {
        std::size_t made;     // the size of the graph then
        bool without_grad;    // made while nothing was recorded
        bool needs_gradient;  // of what it is a view of
    };
    std::unordered_map<const graph::Node*, AutogradView> autograd_views_;
    std::unordered_map<const graph::Node*, std::size_t> last_writes_;  // by the node that made the memory
    std::vector<const TensorValue*> written_;
    std::size_t bytes_written_ = 0;  // of inputs
    /// Something was captured that can't be undone if the graph fails behind it.
    bool has_lasting_ = false;
    Value* null_ = nullptr;
    /// The exception or None; null before anybody asked what was handled around the entered frame.
    Value* handled_exception_ = nullptr;
    /// The modes of PyTorch at the start.
    torch_room::Modes entry_modes_;
    /// What was handled around each generator that runs.
    std::vector<Value*> handled_around_;
    std::vector<GeneratorValue*> generators_;
    Value* result_ = nullptr;
    /// Nobody but the entered frame holds its variables for certain: its caller did so at its start.
    bool is_entered_alone_ = false;
    /// Values from outside that may lose what holds them, and whether they may do so unnoticed.
    struct Watched {
        Value* value;
        bool is_quiet;
    };
    std::vector<Watched> watched_;
    /// Variables of the entered frame that held numbers and the like.
    std::vector<const Source*> unread_;
    std::size_t loud_ = 0;  // of them
    /// Places outside that got something else; the value of what was there, if the trace had read it.
    struct Replaced {
        LetGo::Place place;
        Value* holder;
        PyObject* key;
        Value* old;
    };
    std::vector<Replaced> replaced_;
    struct LetGoBy {
        LetGo::Place place;
        Source* source;
        PyObject* key;
    };
    std::vector<LetGoBy> let_go_;
    /// Of the frame in which the instruction under way started, as it was then.
    std::vector<Value*> stack_before_;
    bytecode::Index at_before_;
    Plan plan_;
    std::vector<Source*> fetched_;
    TraceEnd end_ = TraceEnd::Failed;
    BreakReport report_;
    std::size_t instructions_ = 0;
    std::size_t backward_jumps_ = 0;
};

/// Binds the arguments of a call to the slots of a new frame as CPython does; raises Python's own TypeError in the
/// program where they do not fit.
void bind_arguments(Tracer& tracer, FunctionValue* function, const Arguments& arguments, std::vector<Value*>& slots);

/// One opcode's behaviour.
using OpHandler = void (*)(Interpreter& tracer, BytecodeFrame& frame, const bytecode::Instruction& instruction);
/// Indexed by Op. Every operation has one.
extern const OpHandler kOpHandlers[];

}  // namespace stator
