/// The order in which objects die. A trace holds everything that the program let go of inside of it until the plan has
/// run. That is noticed if freeing an object runs code: then the instruction that lets the object go is executed for
/// real, at its place among the other effects. What can only be learnt by asking (a weak reference) is answered where
/// it is asked.
///
/// An object from outside is held as long as the place is unchanged where the trace found it, or as an open frame or
/// something that the trace has changed or made holds it. Places that the trace knows nothing of are not relied on.
#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/finalizers.h"
#include "cpython/objects.h"
#include "trace/interpreter.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/object.h"
#include "value/kinds/sequence.h"
#include "value/protocol/holding.h"

namespace stator {

namespace {

/// What can't be freed, or is freed without a trace: numbers and strings.
bool is_plain(const Value* value) {
    switch (value->kind) {
        case Kind::Null:
        case Kind::Constant:
        case Kind::Class:
        case Kind::PythonModule:
        case Kind::Builtin:
            return true;
        default:
            return false;
    }
}

bool is_call(bytecode::Op op) {
    return op == bytecode::Op::Call || op == bytecode::Op::CallKw;
}

/// Of keys that compare as Python compares constants.
bool is_key(const Value* key, PyObject* wanted) {
    PyObject* object = key->object();
    if (object == nullptr || object == wanted) return object == wanted;
    if (!PyUnicode_CheckExact(object) && !PyLong_CheckExact(object)) return false;
    return Py_IS_TYPE(wanted, Py_TYPE(object)) && PyObject_RichCompareBool(object, wanted, Py_EQ) == 1;
}

/// Whether a dict still has what it had under a key before the trace changed it.
bool is_untouched(const DictValue* dict, PyObject* key) {
    for (const Table::Entry& entry : dict->table.all())
        if (entry.live && is_key(entry.key, key)) return entry.value == nullptr;
    if (dict->complete) return false;
    return std::ranges::none_of(dict->removed.all(),
                                [key](const Table::Entry& entry) { return entry.live && is_key(entry.key, key); });
}

}  // namespace

/// The frames that are looked at: all, or those that stay when some are left.
struct Interpreter::Staying {
    std::size_t frames;
    std::size_t stack;     // how much of the stack of the topmost one stays
    const Value* carried;  // what is on its way to it; may be null
    bool has_answered;     // the instruction that the topmost one executes is over: its operands go
};

Interpreter::Staying Interpreter::all_stay() const {
    return {frames_.size(), static_cast<std::size_t>(-1), nullptr, false};
}

// --- who holds what
// ----------------------------------------------------------------------------------------------------

bool Interpreter::holds_still(const Source& place) const {
    switch (place.access) {
        case Access::Slot: {
            if (!is_entered_alone_) return true;
            const auto& frame = static_cast<const BytecodeFrame&>(*frames_.front());
            auto number = static_cast<std::size_t>(place.number);
            if (number < frame.slots.size()) return frame.slots[number] == place.value;
            number -= frame.slots.size();
            // The operands of an instruction that waits may have gone to the frame above.
            std::size_t operands = frames_.size() > 1 ? static_cast<std::size_t>(frame.pops) : 0;
            return number + operands < frame.stack.size() && frame.stack[number] == place.value;
        }
        case Access::HandledException:
            return handled_exception_ == place.value;
        case Access::CellContents: {
            auto* cell = cast<CellValue>(known(place.parent->object));
            return cell == nullptr || !cell->read || cell->contents == place.value;
        }
        case Access::Item: {
            const Value* holder = place.parent->value;
            return holder == nullptr || holder->kind == Kind::Tuple || !has_changed(holder);
        }
        case Access::DictItem: {
            auto* dict = cast<DictValue>(known(place.parent->object));
            return dict == nullptr || !dict->changed || is_untouched(dict, place.key);
        }
        case Access::Member: {
            auto* object = cast<ObjectValue>(place.parent->value);
            if (object == nullptr) return true;
            return std::ranges::none_of(object->attributes,
                                        [&](const auto& attribute) { return attribute.first == place.key; });
        }
        case Access::ClassAttribute:
            return std::ranges::none_of(effects_,
                                        [](const Effect& effect) { return effect.from[0]->kind == Kind::Class; });
        case Access::Referent:
            return false;
        case Access::WalkedOver:
        case Access::Upcoming:
            // The container may be changed by another name.
            return std::ranges::all_of(effects_, [](const Effect& effect) {
                return effect.op == PlanOp::Append || effect.op == PlanOp::SetAttribute ||
                       effect.from[0]->kind == Kind::Iterator;
            });
        default:
            return true;
    }
}

bool Interpreter::is_in_place(const Source* place, const HeldValues* held) const {
    for (; place != nullptr; place = place->parent) {
        if (!holds_still(*place)) return false;
        const Source* holder = place->parent;
        if (held != nullptr && holder != nullptr && holder->value != nullptr && held->contains(holder->value))
            return true;
    }
    return true;
}

void Interpreter::add_frame_roots(const Staying& staying, std::vector<const Value*>& roots) const {
    for (std::size_t depth = 0; depth < staying.frames; ++depth) {
        if (frames_[depth]->is_task) {
            roots.push_back(static_cast<TaskFrame&>(*frames_[depth]).task.promise().continuation.value);
            continue;
        }
        const auto& frame = static_cast<const BytecodeFrame&>(*frames_[depth]);
        const bool is_top = depth + 1 == staying.frames;
        std::size_t stack = frame.stack.size();
        // The arguments of a Python function belong to its frame.
        bool is_waiting = depth + 1 < frames_.size();
        bool hands_over = is_waiting && !frames_[depth + 1]->is_task && is_call((*frame.code)[frame.at].op);
        bool is_answered = is_waiting && staying.has_answered && is_top;
        if (hands_over || is_answered) stack -= std::min(stack, static_cast<std::size_t>(frame.pops));
        if (is_top) stack = std::min(stack, staying.stack);
        roots.insert(roots.end(), frame.slots.begin(), frame.slots.end());
        roots.insert(roots.end(), frame.stack.begin(), frame.stack.begin() + static_cast<std::ptrdiff_t>(stack));
        roots.push_back(frame.function);
        roots.push_back(frame.generator);
        if (is_waiting) roots.push_back(frame.held);
    }
    roots.push_back(staying.carried);
    roots.push_back(handled_exception_);
    roots.insert(roots.end(), handled_around_.begin(), handled_around_.end());
    for (const EnteredContext& context : contexts_) roots.push_back(context.manager);
}

Interpreter::HeldValues Interpreter::held_values(const Staying& staying) const {
    std::vector<const Value*> roots;
    add_frame_roots(staying, roots);
    return held_from(std::move(roots));
}

Interpreter::HeldValues Interpreter::held_from(std::vector<const Value*> waiting) const {
    HeldValues held;
    auto follow = [&] {
        while (!waiting.empty()) {
            const Value* value = waiting.back();
            waiting.pop_back();
            if (value == nullptr || is_plain(value) || !held.insert(value).second) continue;
            add_held(*this, value, waiting);
        }
    };
    follow();
    // What was changed holds what was put there, if it is held itself.
    for (std::size_t before = 0; before != held.size();) {
        before = held.size();
        for (const Effect& effect : effects_) {
            const Value* changed = effect.from[0];
            if (changed->source == nullptr || held.contains(changed) || !is_in_place(changed->source, &held)) continue;
            waiting.push_back(changed);
            follow();
            // A class has no attributes of its own in the model, only its dict.
            if (changed->kind == Kind::Class && changed->object() != nullptr) {
                waiting.push_back(known(cpython::class_dict(reinterpret_cast<PyTypeObject*>(changed->object()))));
                follow();
            }
        }
    }
    return held;
}

// --- what may be let go
// ------------------------------------------------------------------------------------------------

bool Interpreter::dies_quietly(PyObject* object) const {
    // The trace itself refers to what it has read, some times; not all of that has a value that is found by its object.
    constexpr Py_ssize_t kOwnReferences = 8;
    auto is_freed = [](PyObject* shared, void* context) {
        const auto& self = *static_cast<const Interpreter*>(context);
        if (const Value* value = self.known(shared))
            return value->source == nullptr || !self.is_in_place(value->source, nullptr);
        bool may_be_referred_to = PyDict_CheckExact(shared) || PyTuple_CheckExact(shared) || PyCell_Check(shared) ||
                                  PyFunction_Check(shared) || PyMethod_Check(shared) || PyList_CheckExact(shared) ||
                                  PyFrame_Check(shared) || PyTraceBack_Check(shared) ||
                                  PyExceptionInstance_Check(shared);
        return may_be_referred_to && Py_REFCNT(shared) <= 1 + kOwnReferences;
    };
    cpython::SharedContents shared{is_freed, const_cast<Interpreter*>(this)};
    return cpython::dies_quietly(object, &shared);
}

void Interpreter::watch(Value* value) {
    if (value == nullptr || is_plain(value) || value->source == nullptr || value->object() == nullptr) return;
    auto is_it = [value](const Watched& watched) { return watched.value == value; };
    if (std::ranges::any_of(watched_, is_it)) return;
    // Most are tensors, and next to none of those is heard of when it goes.
    bool is_quiet = value->kind == Kind::Tensor && !cpython::has_finalizer(value->object());
    watched_.push_back({value, is_quiet});
    if (!is_quiet) ++loud_;
}

void Interpreter::watch_frame() {
    const auto& frame = static_cast<const BytecodeFrame&>(*frames_.front());
    auto note = [this](Value* value) {
        // Next time something else may be in its place, as long as nobody looks at it.
        if (value != nullptr && value->source != nullptr && is_plain(value)) unread_.push_back(value->source);
        watch(value);
    };
    std::ranges::for_each(frame.slots, note);
    std::ranges::for_each(frame.stack, note);
}

void Interpreter::replace(LetGo::Place place, Value* holder, PyObject* key, PyObject* old) {
    auto is_it = [&](const Replaced& other) {
        return other.place == place && other.holder == holder && other.key == key;
    };
    Value* value = old == nullptr ? nullptr : known(old);
    if (value != nullptr)
        watch(value);
    else if (old != nullptr && !dies_quietly(old))
        break_graph(BreakKind::Finalizer,
                    print(*holder->source) + " drops its reference to " + describe_finalizer(old));
    if (std::ranges::any_of(replaced_, is_it)) return;
    if (key != nullptr) keep(Ref<>::share(key));
    replaced_.push_back({place, holder, key, value});
    on_undo([this] { replaced_.pop_back(); });
}

std::string Interpreter::describe_finalizer(PyObject* object) const {
    std::string name = type_name(Py_TYPE(object));
    if (!cpython::has_finalizer(object))
        return "an object of class " + name +
               ", which owns an object whose __del__ or weak reference callback runs code when it is freed";
    return "an object of class " + name + ", whose __del__ or weak reference callback runs code when it is freed";
}

void Interpreter::note_replaced(const Effect& effect) {
    Value* holder = effect.from[0];
    PyObject* real = holder->source == nullptr ? nullptr : holder->object();
    if (real == nullptr) return;
    switch (effect.op) {
        case PlanOp::SetAttribute:
            return replace(LetGo::Place::Attribute, holder, effect.object,
                           held_at({LetGo::Place::Attribute, 0, effect.object}, real).get());
        case PlanOp::SetCell:
            return replace(LetGo::Place::Cell, holder, nullptr, cpython::cell_contents(real));
        case PlanOp::SetItem:
            if (holder->kind == Kind::Dict) return note_replaced_item(holder, real, effect.from[1]);
            break;
        case PlanOp::Call:
            break;
        default:
            return;
    }
    note_contents(holder, real);
}

void Interpreter::note_replaced_item(Value* dict, PyObject* real, Value* key) {
    Ref<> constant = key->as_constant(*this);
    PyObject* wanted = constant ? keep(std::move(constant)) : key->object();
    if (wanted == nullptr) return;
    PyObject* old = PyDict_GetItemWithError(real, wanted);
    if (old == nullptr && PyErr_Occurred() != nullptr) PyErr_Clear();
    replace(LetGo::Place::Item, dict, wanted, old);
}

/// What is taken out of a container was read before; a container that is emptied may hold what was not.
void Interpreter::note_contents(Value* holder, PyObject* real) {
    bool is_container = PyList_Check(real) || PyDict_Check(real) || PyAnySet_Check(real) || cpython::is_deque(real);
    if (!is_container) return;
    auto watch_item = [](PyObject* item, void* context) {
        auto& self = *static_cast<Interpreter*>(context);
        self.watch(self.known(item));
        return 0;
    };
    Py_TYPE(real)->tp_traverse(real, watch_item, this);
    if (holder->kind != Kind::List && !dies_quietly(real))
        break_graph(BreakKind::Finalizer,
                    print(*holder->source) + " drops its reference to " + describe_finalizer(real));
    replace(LetGo::Place::Contents, holder, nullptr, nullptr);
}

// --- checks
// ------------------------------------------------------------------------------------------------------------

Value* Interpreter::find_lost(const Staying& staying) {
    std::optional<HeldValues> held;
    for (Watched& watched : watched_) {
        if (watched.is_quiet) continue;
        if (is_in_place(watched.value->source, nullptr)) continue;
        if (dies_quietly(watched.value->object())) {
            watched.is_quiet = true;
            --loud_;
            continue;
        }
        if (!held) held = held_values(staying);
        if (held->contains(watched.value) || is_in_place(watched.value->source, &*held)) continue;
        return watched.value;
    }
    return nullptr;
}

void Interpreter::refuse_to_lose(const Value* lost) {
    break_graph(BreakKind::Finalizer, "the program drops " + describe_finalizer(lost->object()));
}

void Interpreter::expect_nothing_lost_after(BytecodeFrame& frame) {
    Value* lost = find_lost(all_stay());
    if (lost == nullptr) return;
    // The instruction is over, and is taken back as a whole.
    if (frames_.size() < mark_.depth)
        throw Break{BreakKind::Finalizer, "the program drops " + describe_finalizer(lost->object()), false};
    (void)frame;
    auto& started = static_cast<BytecodeFrame&>(*frames_[mark_.depth - 1]);
    started.stack = stack_before_;
    started.at = at_before_;
    refuse_to_lose(lost);
}

void Interpreter::expect_nothing_lost_by_return(BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    if (frames_.size() == 1) return note_let_go();
    if (loud_ == 0) return;
    const Value* returned = instruction.op == bytecode::Op::ReturnValue ? frame.top() : nullptr;
    Staying staying{frames_.size() - 1, static_cast<std::size_t>(-1), returned, true};
    if (Value* lost = find_lost(staying)) refuse_to_lose(lost);
}

void Interpreter::expect_nothing_lost_by(Value* exception) {
    if (loud_ == 0) return;
    // A traceback keeps the frames that it has gone through, with their variables: that is not modelled.
    for (std::size_t count = frames_.size(); count > 0; --count) {
        if (frames_[count - 1]->is_task) continue;
        const auto& frame = static_cast<const BytecodeFrame&>(*frames_[count - 1]);
        const bytecode::Handler* handler = frame.code->handler_for(frame.at);
        if (handler == nullptr && count > 1) continue;
        auto depth = handler == nullptr ? 0 : static_cast<std::size_t>(handler->depth);
        if (Value* lost = find_lost({count, depth, exception, false})) refuse_to_lose(lost);
        return;
    }
}

void Interpreter::expect_held(Value* value) {
    if (watched_.empty() && replaced_.empty()) return;
    HeldValues held = held_values(all_stay());
    if (held.contains(value) || is_in_place(value->source, &held)) return;
    // Known by weak references alone: what holds it may have been let go, with all that it held.
    bool is_only_referent = value->source->access == Access::Referent;
    bool has_lost = std::ranges::any_of(watched_, [&](const Watched& watched) {
        return watched.value->kind != Kind::Tensor && !held.contains(watched.value) &&
               !is_in_place(watched.value->source, &held);
    });
    if (is_only_referent && !has_lost && replaced_.empty()) return;
    break_graph(BreakKind::Finalizer, "a weak reference is dereferenced after the program dropped the object");
}

void Interpreter::note_let_go() {
    let_go_.clear();
    if (watched_.empty() && replaced_.empty() && unread_.empty()) return;
    HeldValues held = held_values(all_stay());
    auto is_held = [&](const Value* value) { return held.contains(value) || is_in_place(value->source, &held); };
    for (const Source* slot : unread_)
        if (!slot->value->realized && !holds_still(*slot))
            let_go_.push_back({LetGo::Place::Itself, slot->value->source, nullptr});
    for (const Watched& watched : watched_)
        if (!is_held(watched.value)) let_go_.push_back({LetGo::Place::Itself, watched.value->source, nullptr});
    for (const Replaced& replaced : replaced_)
        if (replaced.old == nullptr) let_go_.push_back({replaced.place, replaced.holder->source, replaced.key});
}

}  // namespace stator
