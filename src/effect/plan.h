/// A plan is what an entry does after its graph: a list of operations over numbered registers. A value that escapes
/// twice is built once, in one register. One executor runs a plan, one printer prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ref.h"
#include "number/expression.h"
#include "source/source.h"

namespace stator {

enum class PlanOp : std::uint8_t {
#define PLAN_OP(name) name,
#include "effect/plan_ops.def"
#undef PLAN_OP
};

/// What a C function between two frames does with the result of the upper one, if nothing else is left for it to do.
/// The upper frame can then be left and entered again, and the run room finishes the C function in its
/// place.
struct PlanContinuation {
    enum class Kind : std::uint8_t {
        Forward,     // returns the result
        Initialise,  // the result has to be None; returns something else
        Drop,        // returns None
        Iterate,     // returns the result, which has to be an iterator
        Next,        // the result is an item, StopIteration the end
        Send,        // of a generator: returns what it yields, raises StopIteration at its end
    };
    Kind kind;
    std::int32_t from = -1;  // what Initialise returns
};

/// The state of a frame at the end of the captured region. The real frame is filled with it and continues.
struct PlanFrame {
    struct Slot {
        std::int32_t slot;
        std::int32_t from;  // -1: unbound
    };
    PyCodeObject* code = nullptr;  // kept alive by the plan
    std::int32_t function = -1;    // the function that is called to create the frame; -1 for the frame that was entered
    std::int32_t generator = -1;   // the generator that the frame belongs to
    std::vector<Slot> slots;       // those that have changed
    std::vector<std::int32_t> stack;  // the top one last; -1: NULL
    /// The current instruction: in the innermost frame the one that broke the graph; in the others the call that
    /// waits for the frame above, its operands already popped.
    std::int32_t instruction = 0;
    /// The instruction runs functions of the program from C code (`sorted` with a key), and one of them broke.
    bool runs_callbacks = false;
    /// The C functions between the frame below and this one, innermost first.
    std::vector<PlanContinuation> continuations;
    /// The exception that is being handled in the frame (by an open `except` block), for the outermost frame and for
    /// frames of generators.
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

/// An object that the program may have dropped when the plan has run, located from what the plan fetches. If freeing
/// it would run code of the program, that code belongs in the middle of the captured region: the plan can't be
/// used.
struct DroppedObject {
    enum class Place : std::uint8_t {
        Itself,     // the fetched object
        Attribute,  // the attribute `key` of the object, in its dict or a slot; of a class: in its own dict
        Item,       // the item `key` of the dict or list, if present
        Cell,       // the contents of the cell, if any
        Contents,   // objects that only the container references
    };
    Place place;
    std::int32_t fetched;     // number of what is fetched
    PyObject* key = nullptr;  // kept alive by the plan
};

struct Plan {
    /// How the returned value is built, if the plan does nothing else: from existing objects.
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
    /// Whether it needs the frame object of the frame that it runs for.
    bool uses_frame = false;

    /// If the plan does not return: the open frames, outermost first.
    std::vector<PlanFrame> frames;
    /// If it returns: the exception that is being handled from then on, as in `PlanFrame`.
    std::int32_t handled_exception = PlanFrame::kUnchanged;
    std::vector<DroppedObject> dropped;
};

/// Builds a plan; values request registers. A value is identified by its address.
class PlanBuilder {
  public:
    /// The register of a value that was rebuilt already (or is being rebuilt), or -1.
    int known(const void* value) const;
    /// Whether the graph returns inputs that it has written to, although the plan can fetch them.
    bool gives_back_inputs = true;
    /// Reserves the register of a value before its parts are rebuilt, so that cycles terminate.
    int reserve(const void* value);
    /// Assigns a register that is already filled to a value.
    void remember(const void* value, int number) { registers_.emplace(value, number); }
    int add(PlanOp op, std::vector<std::int32_t> from = {}, Borrowed<> object = nullptr, int number = 0);
    void add_to(int to, PlanOp op, std::vector<std::int32_t> from = {}, Borrowed<> object = nullptr, int number = 0);

    /// A step after all others, such as the state of an iterator over a list that is filled later.
    void add_at_end(PlanOp op, std::vector<std::int32_t> from, Borrowed<> object = nullptr);

    /// Between the two, the value's register holds an object whose contents are not complete.
    void begin_filling(const void* value) { filling_.insert(value); }
    void end_filling(const void* value) { filling_.erase(value); }
    bool is_filling(const void* value) const { return filling_.contains(value); }

    int constant(Borrowed<> object, bool is_made_anew = false);
    /// A graph output; the same node twice is one output.
    int output(const void* node);
    /// The object of a source, fetched by the guard check.
    int fetch(Source* source);
    /// The value of an expression; the same expression twice is one object.
    int arithmetic(const Expression& expression);
    /// Adds the next open frame; the plan then does not return.
    void add_frame(PlanFrame frame);
    void set_handled_exception(std::int32_t from) { plan_.handled_exception = from; }
    /// Records a dropped object: that of `source`, or its item or attribute `key`.
    void add_dropped(DroppedObject::Place place, Source* source, Borrowed<> key);

    /// Checks that every register is filled exactly once before it is read, and that the plan returns or has open
    /// frames.
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

class PlanRegisters;

/// Runs a plan. `outputs` are the graph's, `fetched` what each Fetch takes (by `number`), `entered` the frame that the
/// plan runs for, if its object is needed. Returns the value, or none if the plan does not return: then
/// `registers` hold the contents of its frames, and are empty otherwise. Throws PythonError.
Ref<> run(const Plan& plan, std::span<PyObject* const> outputs, std::span<PyObject* const> fetched,
          PlanRegisters& registers, Borrowed<PyFrameObject> entered = nullptr);

/// The object at such a place now; empty if there is none.
Ref<> held_at(const DroppedObject& dropped, PyObject* fetched);

/// Whether freeing the dropped objects runs no code now. `fetched` as for `run`.
bool frees_dropped_without_code(const Plan& plan, std::span<PyObject* const> fetched);

/// Every reference that the plan owns, for the garbage collector.
void visit(const Plan& plan, const std::function<void(PyObject*)>& visitor);

}  // namespace stator
