/// The tracer: interprets bytecode over values. One loop, no recursion: an inlined call pushes a frame.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "effect/plan.h"
#include "graph/node.h"
#include "torch/global_state.h"
#include "trace/frame.h"
#include "value/tracer.h"

namespace stator {

/// A line of the user's program.
struct UserLine {
    Ref<PyCodeObject> code;
    int line = 0;
};

/// Why a trace stopped, where, and how the program got there (innermost frame first).
struct BreakReport {
    BreakKind kind = BreakKind::Internal;
    std::string reason;
    std::vector<UserLine> stack;
};

/// What a finished trace leaves behind.
struct Trace {
    std::unique_ptr<graph::Graph> graph;
    std::vector<Guard> guards;
    std::vector<Source*> inputs;  // sources of the graph's placeholders, in order
    Plan plan;
    std::vector<Source*> fetched;  // what the plan fetches
    std::size_t instructions = 0;
};

class Interpreter final : public Tracer {
  public:
    /// For the function of a real frame, with its slots as they are at the start.
    Interpreter(PyFunctionObject* function, PyCodeObject* code, PyObject* const* slots);
    ~Interpreter() override;

    /// Interprets to the end. False if it had to stop: then `report()` says why.
    bool run();
    Trace take_trace();
    /// After a break: the guards that led there.
    Trace take_partial_trace();
    const BreakReport& report() const { return report_; }

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
    graph::Node* input(TensorValue* tensor) override;
    torch_room::Modes modes() const override { return modes_; }
    void set_modes(const torch_room::Modes& modes) override;
    void guard(Guard guard) override;
    void will_mutate(Value* value) override;
    FunctionValue* running_function() override;
    Value* exception_in_handling() override { return handled_exception(); }

    // --- the interface for opcode handlers ---

    /// Ends the instruction with a result: takes `pops` operands off the stack and does `complete` (by default: pushes
    /// the result), now or when the outcome is there.
    void finish(BytecodeFrame& frame, Outcome outcome, int pops, Completion complete = push_result);
    static void push_result(Interpreter&, BytecodeFrame&, const bytecode::Instruction&, Value*);
    static void drop_result(Interpreter&, BytecodeFrame&, const bytecode::Instruction&, Value*);

    /// The frame on top ends with a value.
    void return_from_frame(BytecodeFrame& frame, Value* value);
    void yield_from_frame(BytecodeFrame& frame, Value* value);
    /// Makes the generator of a frame that has just started, and ends the call with it.
    void suspend_as_generator(BytecodeFrame& frame);

    /// Called at each backward jump: lets Ctrl-C through, and gives up on loops without end.
    void count_loop();

    Value* null() { return null_; }
    /// What `raise` alone raises again, and what is the context of a new exception: handled by this frame, or by one
    /// that waits for it.
    Value* handled_exception() const;
    /// What this frame handles, or one that called it; a generator starts without.
    Value* handled_here() const { return handled_exception_; }
    void set_handled_exception(Value* exception) { handled_exception_ = exception; }
    /// The variable of the program that just got this value, for the names of nodes.
    void name_after(Value* value, Borrowed<> variable);

  private:
    /// Lets the arguments of a module's call print as those of its `forward`.
    void label_arguments(PyObject* const* slots);
    void interpret();
    void step_until_interrupted();
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
    void record_break(const Break& reason);
    Value* emit(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments);
    Value* value_of(graph::Node* node, const graph::Result& result);
    std::vector<graph::Argument> arguments_of(const Arguments& arguments,
                                              std::vector<graph::KeywordArgument>* keywords);
    const graph::Location* current_location();
    void build_plan();
    /// Breaks if a generator that the plan does not rebuild was left inside a `try` or `with`: CPython runs the rest of
    /// those when it goes.
    void check_given_up_generators(const PlanBuilder& plan);

    std::unique_ptr<graph::Graph> graph_ = std::make_unique<graph::Graph>();
    std::vector<Activation*> frames_;
    std::vector<BytecodeFrame*> free_frames_;
    std::size_t open_tasks_ = 0;
    std::size_t depth_limit_ = 0;
    std::vector<Guard> guards_;
    std::vector<TensorValue*> inputs_;
    std::vector<graph::Node*> input_nodes_;
    torch_room::Modes modes_;
    Value* null_ = nullptr;
    Value* handled_exception_ = nullptr;
    /// What was handled around each generator that runs.
    std::vector<Value*> handled_around_;
    std::vector<GeneratorValue*> generators_;
    Value* result_ = nullptr;
    Plan plan_;
    std::vector<Source*> fetched_;
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
