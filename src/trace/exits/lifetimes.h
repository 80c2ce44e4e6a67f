/// The lifetimes of objects from outside.
///
/// Objects that the program drops inside of a trace are freed when the plan has run. That can be observed if freeing an
/// object runs code (a `__del__`, a weak reference callback, the rest of a generator): then the instruction that drops
/// the object is a graph break. A weak reference to a dropped object is a graph break where it is dereferenced.
///
/// An object from outside is held as long as the place where the trace found it still holds it, or as an open frame or
/// a value that the trace has made or mutated holds it. Another owner counts once it is found: the container that an
/// open loop iterates over, or what is reached from variables by attributes and items. Guards check that it still holds
/// the object.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "effect/plan.h"
#include "trace/call_stack.h"
#include "value/effect_log.h"
#include "value/kinds/generator.h"
#include "value/tracer.h"

namespace stator {

class Lifetimes {
  public:
    using HeldValues = std::unordered_set<const Value*>;

    Lifetimes(Tracer& tracer, const CallStack& stack) : tracer_(tracer), stack_(stack) {}

    /// Watches the variables of the entered frame. Called if the caller does not hold them too, as it does at the start
    /// of a function.
    void watch_entered_frame();
    /// Watches a generator from outside that is advanced, and what its frame holds. From then on its real state is not
    /// the one that it is dropped in.
    void watch_generator(GeneratorValue* generator);
    /// Called before an effect is logged: watches the objects that it removes from where they are. Breaks the graph if
    /// such an object is known to be held nowhere else, and freeing it runs code.
    void note_replaced(const Effect& effect);

    /// Whether a watched object runs code when it is freed, as far as is known: then every instruction that may drop a
    /// reference is checked.
    bool needs_checks() const { return may_run_code_ > 0; }
    // Break the graph if a watched object is dropped and freeing it runs code: by the instruction that was just
    // executed, by leaving a frame, by unwinding to the handler of an exception.
    void check_instruction();
    void check_return(const BytecodeFrame& frame, const bytecode::Instruction& instruction);
    void check_unwinding(const Value* exception);
    /// Called before a weak reference is dereferenced; see EffectLog.
    void expect_held(const Value* value);

    /// Finds the objects that the program has dropped, at the end of the trace. In another call they may have
    /// finalizers.
    void find_dropped();
    /// Adds them to the plan, which is checked before it is used.
    void add_dropped(PlanBuilder& plan) const;

    /// The values that are held if the program holds `roots`.
    HeldValues held_from(std::vector<const Value*> roots) const;

  private:
    /// The frames that are left after an instruction, as far as they still hold values.
    struct RemainingFrames {
        std::size_t count;
        std::size_t stack;       // depth of the value stack of the topmost one
        const Value* delivered;  // to the topmost one; may be null
        bool has_result;         // the instruction of the topmost one is over: its operands are popped
    };
    RemainingFrames all_frames() const;

    /// Whether a place outside holds the same object as when the trace began.
    bool is_unchanged(const Source& place) const;
    bool is_slot_unchanged(const Source& place) const;
    /// Whether a place can still be reached from where the trace began, or from a value of `held`.
    bool is_in_place(const Source* place, const HeldValues* held) const;
    /// The same for an item that an iterator returned last: its container holds it.
    bool is_last_item_in_place(const Source& place, const HeldValues* held) const;
    /// Whether a value is in its place, or in another one that was found.
    bool is_kept(const Value* value, const HeldValues* held) const;
    /// Looks for another place that holds a value and is not dropped.
    bool find_owner(Value* lost, const RemainingFrames& frames, const HeldValues& held);
    bool find_owner_of_container(const Source& item, const std::vector<const Value*>& roots);
    void add_owner(PyObject* object, Source* place);
    void add_frame_roots(const RemainingFrames& frames, std::vector<const Value*>& roots) const;
    /// The values that frames hold, and values that the trace has mutated.
    HeldValues held_values(const RemainingFrames& frames) const;
    struct Sharing;
    static bool is_freed_without_code(PyObject* object, const Sharing& sharing);
    bool is_freed_without_code(PyObject* object) const;
    std::string describe_finalizer(PyObject* object) const;

    void watch(Value* value);
    void note_replaced_item(Value* dict, PyObject* real, Value* key);
    void note_contents(Value* holder, PyObject* real);
    void replace(DroppedObject::Place place, Value* holder, PyObject* key, PyObject* old);
    /// A watched value that nothing holds and that runs code when it is freed; null if there is none.
    const Value* find_lost(const RemainingFrames& frames);
    [[noreturn]] void refuse_to_lose(const Value* lost) const;

    Tracer& tracer_;
    const CallStack& stack_;
    /// Only the entered frame is known to hold its variables.
    bool is_entered_alone_ = false;
    /// Values from outside that may lose their holder.
    struct Watched {
        Value* value;
        bool runs_no_code;                       // when it is freed
        std::vector<const Source*> contents_at;  // other owners of what it owns that runs code when it is freed
    };
    /// Whether all that it owns and that runs code when it is freed has other owners, which are looked for.
    bool shares_what_runs_code(Watched& watched, const RemainingFrames& frames, const HeldValues& held) const;
    std::vector<Watched> watched_;
    std::size_t may_run_code_ = 0;  // how many watched values may run code when they are freed
    /// Other places that hold a value.
    struct Owner {
        const Value* held;
        const Source* place;
    };
    std::vector<Owner> owners_;
    /// Variables of the entered frame with numbers and other constants. In another call they may hold other objects.
    std::vector<const Source*> unread_;
    /// Places outside that were assigned to, with the value of the object that was there, if the trace had read it.
    struct Replaced {
        DroppedObject::Place place;
        Value* holder;
        PyObject* key;
        Value* old;
    };
    std::vector<Replaced> replaced_;
    struct Dropped {
        DroppedObject::Place place;
        Source* source;
        PyObject* key;
    };
    std::vector<Dropped> dropped_;
};

}  // namespace stator
