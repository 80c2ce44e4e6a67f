/// What an entry does after its graph, as data: a short list of operations over numbered registers. Registers carry
/// aliasing: a value that escapes twice is built once. One executor runs a plan, one printer prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ref.h"
#include "source/expression.h"
#include "source/source.h"

namespace stator {

enum class PlanOp : std::uint8_t {
    Constant,   // to = object; if `number` is 1 a new object with its value (int, float, complex, str, bytes, range)
    Output,     // to = graph output `number`
    Fetch,      // to = what the source led to when the guards were checked (`number`: among those fetched)
    Tuple,      // to = tuple of `from`; of class `object` if given (named tuple, torch.Size, structseq)
    List,       // to = new list of `from`; of class `object` if given
    Dict,       // to = new dict of pairs in `from`; of class `object` if given (OrderedDict, defaultdict, ...)
    Set,        // to = new set of `from`; of class `object` if given
    Frozenset,  // to = new frozenset of `from`; of class `object` if given
    Slice,      // to = slice(from[0], from[1], from[2])
    NewObject,  // to = what the `__new__` of the builtin class below the class `object` makes of the arguments `from`
    Function,   // to = function of code `object`; from: globals, name, defaults, keyword defaults, closure, annotations
                // (-1: none)
    Cell,       // to = new cell, empty or with from[0]
    Method,     // to = method of from[0] bound to from[1]
    Generator,  // to = generator of the function from[0] that did not start, to be filled or to be ended
    Frame,      // to = frame object of code `object` with globals from[0] that has got to offset `number`
    EnteredFrame,  // to = the object of the frame that the plan runs for; as `Frame` if it runs for none
    Traceback,   // to = traceback entry: offset `number` in the frame object from[0], then the entry from[1] (-1: none)
    Call,        // to = object(*from): constructors of builtin classes that have no side effects
    CallNamed,   // to = object(*from, **last), the last of `from` being a dict: the same with keywords
    Arithmetic,  // to = from[0] op from[1] of exact numbers, where op is `number`, an Expression::Op
    SetAttribute,   // straight into the instance or its slot, without its class's `__setattr__`: from[0].`object` =
                    // from[1] (-1: delete)
    SetItem,        // from[0][from[1]] = from[2], by the builtin class's own method (-1: delete); in a dict, where
                    // `object` is given, without asking the key for its hash, which that int is
    Append,         // from[0].append(from[1])
    Add,            // from[0].add(from[1])
    SetCell,        // cell from[0] = from[1] (-1: empty)
    FillGenerator,  // generator from[0] waits at the yield at offset `number` (-1: did not start), handling the
                    // exception from[1] (-1: none), with all its slots and then its stack in the rest (-1: nothing)
    EndGenerator,   // generator from[0] has returned
    Return,         // the frame returns from[0]
};

/// What a C function that stands between two frames does with the result of the upper one, where that is all that is
/// left for it to do: then the upper frame can be left and entered again, and the run room ends the function in its
/// place.
struct PlanContinuation {
    enum class Kind : std::uint8_t {
        Forward,     // the result is the function's own
        Initialise,  // the result has to be None, and something else is given instead
        Drop,        // None is given instead
        Iterate,     // the result has to be an iterator
        Next,        // the result is an item, StopIteration the end
        Send,        // of a generator: what it yields is the result, its end is a StopIteration
    };
    Kind kind;
    std::int32_t from = -1;  // what Initialise gives
};

/// The state of a frame where the captured part of the program ends: it is filled with this, and goes on.
struct PlanFrame {
    struct Slot {
        std::int32_t slot;
        std::int32_t from;  // -1: unbound
    };
    PyCodeObject* code = nullptr;     // kept alive by the plan
    std::int32_t function = -1;       // whose frame is made for it; -1 for the frame that was entered
    std::int32_t generator = -1;      // the generator that the frame belongs to
    std::vector<Slot> slots;          // those that are not as they were
    std::vector<std::int32_t> stack;  // the top one last; -1: NULL
    /// The instruction that it executes: the one to be done for real in the innermost frame; in the others the one
    /// that waits for the frame above, its operands already taken off the stack.
    std::int32_t instruction = 0;
    /// The instruction runs functions of the program from C code (`sorted` with a key), and one of them broke.
    bool runs_callbacks = false;
    /// What stands between the frame below and this one, innermost first.
    std::vector<PlanContinuation> continuations;
    /// The exception that is being handled around the frame, for the outermost one and those of generators: what an
    /// `except` block has caught that is open there.
    static constexpr std::int32_t kUnchanged = -2;
    std::int32_t handled_exception = kUnchanged;  // -1: none
};

struct PlanStep {
    PlanOp op;
    std::int32_t to = -1;
    std::int32_t number = 0;
    PyObject* object = nullptr;  // kept alive by the plan
    std::vector<std::int32_t> from;
};

/// Something that nobody in the program may hold any more once the plan has run, found by what the plan fetches. Where
/// freeing it would run code of the program's, that has to happen in the middle of what was captured: then the plan is
/// not to be used.
struct LetGo {
    enum class Place : std::uint8_t {
        Itself,     // the fetched object
        Attribute,  // what the object holds as `key` now, if anything, itself or in a slot; of a class: in its own dict
        Item,       // what the dict or list holds under `key` now, if anything
        Cell,       // what the cell holds now, if anything
        Contents,   // what the container alone holds
    };
    Place place;
    std::int32_t fetched;     // number of what is fetched
    PyObject* key = nullptr;  // kept alive by the plan
};

struct Plan {
    /// How the returned value is made, where that is all a plan does: of parts that are there already.
    enum class Shape : std::uint8_t { General, OnePart, TupleOfParts };
    struct Part {
        PlanOp op;  // Constant, Output or Fetch
        std::int32_t number;
        PyObject* object;
    };

    std::vector<PlanStep> steps;
    std::int32_t registers = 0;
    std::vector<Ref<>> kept;

    Shape shape = Shape::General;
    std::vector<Part> parts;
    /// Whether it wants the object of the frame that it runs for.
    bool uses_frame = false;

    /// Where the plan does not return: the open frames, outermost first.
    std::vector<PlanFrame> frames;
    /// Where it returns: the exception that is being handled from then on, as in `PlanFrame`.
    std::int32_t handled_exception = PlanFrame::kUnchanged;
    std::vector<LetGo> let_go;
};

/// Builds a plan; values ask it for registers. A value is named by its address.
class PlanBuilder {
  public:
    /// The register of a value that was rebuilt already (or is being rebuilt), or -1.
    int known(const void* value) const;
    /// Whether the graph gives back inputs that it has written to, though the plan has them already.
    bool gives_back_inputs = true;
    /// Reserves the register of a value before its parts are rebuilt, so that cycles end.
    int reserve(const void* value);
    /// Names a register that is filled already after a value.
    void remember(const void* value, int number) { registers_.emplace(value, number); }
    int add(PlanOp op, std::vector<std::int32_t> from = {}, Borrowed<> object = nullptr, int number = 0);
    void add_to(int to, PlanOp op, std::vector<std::int32_t> from = {}, Borrowed<> object = nullptr, int number = 0);

    /// A step after all others: the state of an iterator over a list that may still have to be filled, say.
    void add_at_end(PlanOp op, std::vector<std::int32_t> from, Borrowed<> object = nullptr);

    /// Between the two, the value's register holds an object whose contents are not complete.
    void begin_filling(const void* value) { filling_.insert(value); }
    void end_filling(const void* value) { filling_.erase(value); }
    bool is_filling(const void* value) const { return filling_.contains(value); }

    int constant(Borrowed<> object, bool is_made_anew = false);
    /// A graph output; the same node twice is one output.
    int output(const void* node);
    /// What a source leads to at the time of the guards.
    int fetch(Source* source);
    /// The number that an expression comes to; the same expression twice is one object.
    int arithmetic(const Expression& expression);
    /// The next frame that is open at the end; then nothing is returned.
    void add_frame(PlanFrame frame);
    void set_handled_exception(std::int32_t from) { plan_.handled_exception = from; }
    /// Notes what is let go: what `source` leads to, or holds under `key`.
    void let_go(LetGo::Place place, Source* source, Borrowed<> key);

    /// Checks that every register is filled before it is read, exactly once, and that the plan returns or reaches its
    /// end.
    Plan finish() &&;
    const std::vector<const void*>& outputs() const { return outputs_; }
    const std::vector<Source*>& fetched() const { return fetched_; }

  private:
    Plan plan_;
    std::unordered_map<const void*, int> registers_;
    std::vector<const void*> outputs_;
    std::vector<Source*> fetched_;
    std::vector<PlanStep> at_end_;
    std::unordered_set<const void*> filling_;
};

/// One step a line: `r2 = tuple(r0, r1)`.
std::string print(const Plan& plan);

/// Runs a plan. `outputs` are the graph's, `fetched` what each Fetch takes (by `number`), `entered` the frame that the
/// plan runs for, where its object is wanted. Gives the returned value, or none if the plan does not return: then
/// `registers` get what its frames are made of. Throws PythonError.
Ref<> run(const Plan& plan, std::span<PyObject* const> outputs, std::span<PyObject* const> fetched,
          Borrowed<PyFrameObject> entered = nullptr, std::vector<Ref<>>* registers = nullptr);

/// What is at such a place now; empty if nothing is.
Ref<> held_at(const LetGo& gone, PyObject* fetched);

/// Whether freeing what the plan lets go runs no code now. `fetched` as for `run`.
bool lets_go_quietly(const Plan& plan, std::span<PyObject* const> fetched);

/// Every reference that the plan owns, for the garbage collector.
void visit(const Plan& plan, const std::function<void(PyObject*)>& visitor);

}  // namespace stator
