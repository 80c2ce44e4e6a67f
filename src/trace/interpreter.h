/// The interpreter: executes bytecode over values. One loop, no recursion: an inlined call pushes a frame.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpython/generators.h"
#include "trace/call_stack.h"
#include "trace/exits/effects.h"
#include "trace/exits/exit_writer.h"
#include "trace/exits/lifetimes.h"
#include "trace/frame.h"
#include "trace/recorder/graph_recorder.h"
#include "trace/trace.h"
#include "value/builtins/logging_functions.h"
#include "value/caller.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

class Interpreter final : public Tracer {
  public:
    Interpreter(const TraceRequest& request, const Knowledge& knowledge);
    ~Interpreter() override;

    /// Interprets the program and writes its exit. Throws StartAgain, and PythonError for a KeyboardInterrupt.
    void run();
    TraceEnd end() const { return end_; }
    /// After a break: the outermost inlined function that works on other things than tensors, so that it is better
    /// called as a whole. Null if there is none.
    PyCodeObject* function_without_tensors() const;
    /// After a failure because a tensor is still wrapped where the captured region ends: the function transforms that
    /// it may come from.
    std::vector<PyCodeObject*> transforms_to_call_whole();
    /// After a break: the outermost inlined function that communicates between processes, if the break is in it or in
    /// what it calls of libraries. Null if there is none, or if it has to be an error.
    PyCodeObject* communication() const;
    /// After a break: whether the entered frame calls a module which has to be called uncompiled, and nothing else. The
    /// graphs are inside of that module.
    bool runs_around_graphs() const;
    /// To be called once, at the end.
    Trace take_trace();

    // --- the interface for values ---
    Outcome push_call(FunctionValue* function, const Arguments& arguments) override;
    /// Runs the body of a class statement. The dict of its names is in the slot behind those of its variables.
    Outcome push_class_body(FunctionValue* body, Value* names);
    Outcome push_generator(GeneratorValue* generator, Value* sent) override;
    Outcome throw_into_generator(GeneratorValue* generator, Value* exception) override;
    Outcome start(Task task) override;
    FunctionValue* running_function() override { return stack_.innermost()->function; }
    /// See value/caller.h.
    std::optional<Caller> caller(long stacklevel) const;
    /// See value/builtins/config_patches.h.
    void change_setting(std::string_view name, std::optional<bool> is_on);
    Value* class_cell_of_caller() override;
    Value* first_argument_of_caller() override;
    Value* exception_in_handling() override { return handled_exception(); }
    bool keeps_compiled_by_torch() override;
    void guard_relation(const Expression& condition) override;
    [[noreturn]] void ask(const Expression& question) override;
    /// Records which numbers are constants since the last relation.
    void note_specialized();
    /// Specializes symbols that have more guards than the settings allow.
    void count_guards(const Expression& condition);
    std::vector<UnbackedSymbol> unbacked_symbols();

    // --- the interface for opcode handlers ---

    /// Ends the instruction with a result: pops `pops` operands and calls `complete` (by default: pushes the result),
    /// now or when the outcome is delivered.
    void finish(BytecodeFrame& frame, Outcome outcome, int pops, Completion complete = push_result);
    static void push_result(Interpreter&, BytecodeFrame&, const bytecode::Instruction&, Value*);
    static void drop_result(Interpreter&, BytecodeFrame&, const bytecode::Instruction&, Value*);

    /// The frame on top ends with a value.
    void return_from_frame(BytecodeFrame& frame, Value* value);
    void yield_from_frame(BytecodeFrame& frame, Value* value);
    /// Whether the frame is the entered one and a generator's: then the trace ends at its next `yield`.
    bool is_entered_generator(const BytecodeFrame& frame) const {
        return entered_generator_ && &frame == stack_.frames.front();
    }
    /// See generator.h.
    void follow_outside(GeneratorValue* generator);
    /// Makes the generator of a frame that has just started, and ends the call with it.
    void suspend_as_generator(BytecodeFrame& frame);

    /// What an exception becomes that leaves a generator: for StopIteration it is a RuntimeError.
    Value* leaving_generator(const GeneratorValue* generator, Value* exception);

    /// Called at each backward jump: handles Ctrl-C, and gives up on endless loops.
    void count_loop();

    Value* null() { return stack_.null; }
    /// The exception that a `raise` without operands raises again, and the context of a new exception: handled by this
    /// frame or by one that waits for it. Null if there is none.
    Value* handled_exception();
    /// The exception that this frame handles, or one that called it; a generator starts without. Or None.
    Value* handled_here();
    void set_handled_exception(Value* exception);
    /// The program has assigned this value to a variable: names its node.
    void name_after(Value* value, Borrowed<> variable) { recorder_.name_after(value, variable); }
    /// Reports a call whose arguments don't fit the function. The program gets a TypeError with this message.
    void note_mismatch(FunctionValue* function, const std::string& message, const Arguments& arguments);

  private:
    void enter_frame(const TraceRequest& request);
    /// Labels the arguments of a module's `__call__` as those of its `forward`.
    void label_arguments(PyObject* const* slots);
    /// As the label of a source.
    PyObject* label_of(const std::string& text);

    // Stepping.
    void interpret();
    void step_until_interrupted();
    void execute(BytecodeFrame& frame, const bytecode::Instruction& instruction);
    /// Executes an instruction of a deferred graph, and notes what it reads.
    void execute_deferred(BytecodeFrame& frame, const bytecode::Instruction& instruction);
    void complete_instruction(BytecodeFrame& frame, int pops, Completion complete, Value* result);
    /// Checks what dies with the frame that returns, and notes the generators that the outermost one holds.
    void note_return(BytecodeFrame& frame, const bytecode::Instruction& instruction);
    /// Notes the nodes and guards that the last instruction made.
    void note_made();
    /// Notes what the last instruction made, and the next instruction.
    void note_step(const BytecodeFrame& frame, const bytecode::Instruction& instruction);
    /// Undoes the changes of the current instruction, and pops the frames above its own.
    void roll_back();
    void record_break(const Break& reason);
    ExitWriter exit_writer();

    // Frames and tasks.
    BytecodeFrame* new_frame(FunctionValue* function);
    void note_traced(PyCodeObject* code);
    void pop_frame();
    void expect_room_for_frame();
    /// Breaks the graph if the function is to be called as a whole.
    void expect_inlined(FunctionValue* function);
    /// Breaks the graph if the function, or the module whose call it is, is known to communicate between processes.
    void expect_no_communication(const FunctionValue* function, const Arguments& arguments);
    /// The module whose call was entered; null if something else was. (It is not one that is called inside of that.)
    PyObject* entered_module() const;
    /// Whether all open frames are PyTorch's code for the call of one module.
    bool is_in_entered_module() const;
    /// Whether the current instruction is inside of a higher-order operation. Such a call is executed as a whole: the
    /// functions of PyTorch that make it would take another path if they were captured.
    bool is_in_higher_order_operation() const;
    /// Whether it is inside of such a function of PyTorch.
    bool is_in_front_end() const;
    /// Whether it is a function of PyTorch's that transforms functions, or calls one that was transformed.
    bool is_of_transforms(const FunctionValue* function);
    Task call_transform(FunctionValue* function, Arguments arguments);
    void enter_task(TaskFrame& frame);
    void leave_task(TaskFrame& frame);
    void deliver(Value* value);
    /// A variable of the innermost frame; null if there is none of that name.
    Value* local_of_caller(Borrowed<> name);

    // Exceptions.
    void unwind(Value* exception);
    /// Raises an exception in a waiting task.
    void throw_into_task(TaskFrame& frame, Value* exception);
    void enter_handler(BytecodeFrame& frame, const bytecode::Handler& handler, Value* exception);
    /// Whether an open frame or task may catch an exception that the innermost frame raises.
    bool may_be_caught(Value* exception) const;
    void note_in_traceback(BytecodeFrame& frame, ExceptionValue* exception);

    // Generators.
    /// Breaks the graph if the frame of a generator of this function is not traced on.
    void expect_followed(FunctionValue* function);
    /// The item of a generator's state.
    Source* part_of_state(Source* state, int index);
    /// The frame of a generator from outside, as values.
    BytecodeFrame* read_frame(GeneratorValue* generator, const cpython::GeneratorPlace& place, Source* state);
    Outcome throw_here(GeneratorValue* generator, Value* exception);
    Task throw_through_delegate(GeneratorValue* generator, GeneratorValue* delegate, Value* exception);
    void enter_generator(GeneratorValue* generator);
    void leave_generator(GeneratorValue* generator);

    /// How functions of a module are called.
    enum class ModuleRole : std::uint8_t { Inlined, LeftToPython, Transforms };
    ModuleRole module_role(PyObject* globals);

    /// Whether the program is inside of `torch._dynamo.error_on_graph_break(True)`, which sets a global of torch.
    bool is_where_breaks_are_errors();

    /// Sources of objects that the trace took for different ones.
    std::vector<Source*> distinct_sources(const std::vector<Source*>& inputs) const;

    CallStack stack_;
    TorchModes torch_modes_;
    Lifetimes lifetimes_;
    EffectWriter effect_writer_;
    GraphRecorder recorder_;

    TraceLog* const trace_log_;  // may be null
    /// The settings that the program has changed in the trace, as they were before.
    std::map<std::string, bool, std::less<>> first_settings_;

    std::vector<BytecodeFrame*> free_frames_;
    std::vector<Ref<PyCodeObject>> traced_code_;     // of all frames, in order
    std::array<PyCodeObject*, 256> noted_lately_{};  // by address: a function that is called often is noted a few times
    std::size_t open_tasks_ = 0;
    std::size_t depth_limit_ = 0;
    const bool entered_generator_;
    const LoggingFunctions logging_functions_;
    const bool is_resumed_;  // the trace starts in the middle of its frame
    bool broke_in_callback_ = false;
    bool breaks_at_communication_ = false;
    bool inlined_torch_compile_ = false;
    bool forbids_breaks_ = false;
    bool needs_random_number_ = false;  // the break is by a question about one
    std::vector<GeneratorValue*> generators_;
    std::vector<GeneratorValue*> held_at_return_;             // by variables of the entered frame
    std::unordered_map<PyObject*, ModuleRole> module_roles_;  // by the globals of functions
    Value* result_ = nullptr;

    TraceExit exit_;
    TraceEnd end_ = TraceEnd::Failed;
    BreakReport report_;
    std::vector<MismatchedCall> mismatched_calls_;
    std::vector<Relation> relations_;
    std::unordered_map<const Expression*, int> specialized_by_;  // positions in `relations_`
    std::unordered_map<const Expression*, std::int64_t> guards_of_symbols_;
    std::size_t instructions_ = 0;
    std::size_t backward_jumps_ = 0;
    double decoding_seconds_ = 0;
};

/// Binds the arguments of a call to the slots of a new frame as CPython does; raises Python's own TypeError in the
/// program if they don't fit.
void bind_arguments(Interpreter& tracer, FunctionValue* function, const Arguments& arguments,
                    std::vector<Value*>& slots);

/// One opcode's behaviour.
using OpHandler = void (*)(Interpreter& tracer, BytecodeFrame& frame, const bytecode::Instruction& instruction);
/// Indexed by Op. Every operation has one.
extern const OpHandler kOpHandlers[];

}  // namespace stator
