#include "trace/exits/lifetimes.h"

#include <algorithm>
#include <utility>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/finalizers.h"
#include "cpython/hashed_items.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "trace/exits/owners.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/object.h"
#include "value/kinds/outside_iterator.h"
#include "value/kinds/sequence.h"
#include "value/protocol/holding.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

/// Values that are never freed, or whose freeing can't be observed.
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

/// Whether it is a generator from outside that the trace has advanced.
bool is_advanced(const Value* value) {
    const auto* generator = value == nullptr ? nullptr : cast<GeneratorValue>(value);
    return generator != nullptr && generator->outside != nullptr && generator->is_followed;
}

/// Whether such a generator has finished: what its frame held is watched, so nothing is freed with it.
bool has_ended(const Value* value) {
    return is_advanced(value) && static_cast<const GeneratorValue*>(value)->finished;
}

bool is_call(bytecode::Op op) {
    return op == bytecode::Op::Call || op == bytecode::Op::CallKw;
}

/// Whether a key of the model is this object, or an equal string or int.
bool is_key(const Value* key, PyObject* wanted) {
    PyObject* object = key->object();
    if (object == nullptr || object == wanted) return object == wanted;
    if (!PyUnicode_CheckExact(object) && !PyLong_CheckExact(object)) return false;
    return Py_IS_TYPE(wanted, Py_TYPE(object)) && PyObject_RichCompareBool(object, wanted, Py_EQ) == 1;
}

/// Whether a mutated dict still has its old value under a key.
bool is_untouched(const DictValue* dict, PyObject* key) {
    for (const Table::Entry& entry : dict->table.all())
        if (entry.live && is_key(entry.key, key)) return entry.value == nullptr;
    if (dict->complete) return false;
    return std::ranges::none_of(dict->removed.all(),
                                [key](const Table::Entry& entry) { return entry.live && is_key(entry.key, key); });
}

}  // namespace

Lifetimes::RemainingFrames Lifetimes::all_frames() const {
    return {stack_.frames.size(), static_cast<std::size_t>(-1), nullptr, false};
}

// --- who holds what -------------------------------------------------------------------------------------------------

bool Lifetimes::is_slot_unchanged(const Source& place) const {
    if (!is_entered_alone_) return true;
    const auto& frame = static_cast<const BytecodeFrame&>(*stack_.frames.front());
    auto number = static_cast<std::size_t>(place.number);
    if (number < frame.slots.size()) return frame.slots[number] == place.value;
    number -= frame.slots.size();
    // The operands of a waiting instruction may belong to the frame above.
    std::size_t operands = stack_.frames.size() > 1 ? static_cast<std::size_t>(frame.pops) : 0;
    return number + operands < frame.stack.size() && frame.stack[number] == place.value;
}

bool Lifetimes::is_unchanged(const Source& place) const {
    const EffectLog& effects = tracer_.effects();
    switch (place.access) {
        case Access::Slot:
            return is_slot_unchanged(place);
        case Access::HandledException:
            return stack_.handled_exception == place.value;
        case Access::CellContents: {
            auto* cell = cast<CellValue>(tracer_.known(place.parent->object));
            return cell == nullptr || !cell->read || cell->contents == place.value;
        }
        case Access::Item: {
            const Value* holder = place.parent->value;
            return holder == nullptr || holder->kind == Kind::Tuple || !effects.has_mutated(holder);
        }
        case Access::DictItem: {
            auto* dict = cast<DictValue>(tracer_.known(place.parent->object));
            return dict == nullptr || !dict->changed || is_untouched(dict, place.key);
        }
        case Access::Entry: {
            auto* dict = cast<DictValue>(tracer_.known(place.parent->object));
            return dict == nullptr || !dict->changed;
        }
        case Access::Member: {
            auto* object = cast<ObjectValue>(place.parent->value);
            if (object == nullptr) return true;
            return std::ranges::none_of(object->attributes,
                                        [&](const auto& attribute) { return attribute.first == place.key; });
        }
        case Access::ClassAttribute:
            return std::ranges::none_of(effects.entries(),
                                        [](const Effect& effect) { return effect.from[0]->kind == Kind::Class; });
        case Access::Referent:
            return false;
        case Access::Upcoming:
            if (place.number == cpython::kState) return !is_advanced(place.parent->value);
            [[fallthrough]];
        case Access::WalkedOver:
            // The program may have mutated the container by another name.
            return std::ranges::all_of(effects.entries(), [](const Effect& effect) {
                return effect.op == PlanOp::Append || effect.op == PlanOp::SetAttribute ||
                       effect.from[0]->kind == Kind::Iterator || effect.from[0]->kind == Kind::Generator;
            });
        default:
            return true;
    }
}

bool Lifetimes::is_in_place(const Source* place, const HeldValues* held) const {
    for (; place != nullptr; place = place->parent) {
        if (place->access == Access::Upcoming && place->number == cpython::kLast)
            return is_last_item_in_place(*place, held);
        if (!is_unchanged(*place)) return false;
        const Source* holder = place->parent;
        if (held != nullptr && holder != nullptr && holder->value != nullptr && held->contains(holder->value))
            return true;
    }
    return true;
}

bool Lifetimes::is_last_item_in_place(const Source& place, const HeldValues* held) const {
    const auto* iterator = dynamic_cast<const OutsideIterator*>(place.parent->value);
    if (iterator == nullptr) return false;
    bool is_iterating =
        !iterator->is_at_end && ((held != nullptr && held->contains(iterator)) || is_in_place(place.parent, held));
    int containers = 0;
    for (; PyObject* container = cpython::walked_over(iterator->outside, containers); ++containers) {
        const Value* known = tracer_.known(container);
        if (known != nullptr && tracer_.effects().has_mutated(known)) return false;
        if (is_iterating) continue;
        if (known == nullptr || !((held != nullptr && held->contains(known)) || is_kept(known, held))) return false;
    }
    // Without the iterator it is not known which of several containers has the item.
    return is_iterating || (containers == 1 && cpython::inner_iterator(iterator->outside, 0) == nullptr);
}

bool Lifetimes::is_kept(const Value* value, const HeldValues* held) const {
    if (is_in_place(value->source, held)) return true;
    return std::ranges::any_of(
        owners_, [&](const Owner& owner) { return owner.held == value && is_in_place(owner.place, held); });
}

void Lifetimes::add_frame_roots(const RemainingFrames& remaining, std::vector<const Value*>& roots) const {
    for (std::size_t depth = 0; depth < remaining.count; ++depth) {
        if (stack_.frames[depth]->is_task) {
            roots.push_back(static_cast<TaskFrame&>(*stack_.frames[depth]).task.promise().continuation.value);
            continue;
        }
        const auto& frame = static_cast<const BytecodeFrame&>(*stack_.frames[depth]);
        const bool is_top = depth + 1 == remaining.count;
        std::size_t stack = frame.stack.size();
        // The arguments of a Python function belong to its frame.
        bool is_waiting = depth + 1 < stack_.frames.size();
        bool hands_over = is_waiting && !stack_.frames[depth + 1]->is_task && is_call((*frame.code)[frame.at].op);
        bool is_answered = is_waiting && remaining.has_result && is_top;
        if (hands_over || is_answered) stack -= std::min(stack, static_cast<std::size_t>(frame.pops));
        if (is_top) stack = std::min(stack, remaining.stack);
        roots.insert(roots.end(), frame.slots.begin(), frame.slots.end());
        roots.insert(roots.end(), frame.stack.begin(), frame.stack.begin() + static_cast<std::ptrdiff_t>(stack));
        roots.push_back(frame.function);
        roots.push_back(frame.generator);
        if (is_waiting) roots.push_back(frame.held);
    }
    roots.push_back(remaining.delivered);
    roots.push_back(stack_.handled_exception);
    roots.insert(roots.end(), stack_.handled_around.begin(), stack_.handled_around.end());
    for (const TorchModes::EnteredContext& context : tracer_.modes().contexts()) roots.push_back(context.manager);
}

Lifetimes::HeldValues Lifetimes::held_values(const RemainingFrames& remaining) const {
    std::vector<const Value*> roots;
    add_frame_roots(remaining, roots);
    return held_from(std::move(roots));
}

Lifetimes::HeldValues Lifetimes::held_from(std::vector<const Value*> waiting) const {
    HeldValues held;
    auto follow = [&] {
        while (!waiting.empty()) {
            const Value* value = waiting.back();
            waiting.pop_back();
            if (value == nullptr || is_plain(value) || !held.insert(value).second) continue;
            add_held(tracer_, value, waiting);
        }
    };
    follow();
    // A mutated object holds its new contents if it is held itself.
    for (std::size_t before = 0; before != held.size();) {
        before = held.size();
        for (const Effect& effect : tracer_.effects().entries()) {
            const Value* changed = effect.from[0];
            if (changed->source == nullptr || held.contains(changed) || !is_in_place(changed->source, &held)) continue;
            waiting.push_back(changed);
            follow();
            // The attributes of a class are modelled by its dict.
            if (changed->kind == Kind::Class && changed->object() != nullptr) {
                waiting.push_back(
                    tracer_.known(cpython::class_dict(reinterpret_cast<PyTypeObject*>(changed->object()))));
                follow();
            }
        }
    }
    return held;
}

void Lifetimes::add_owner(PyObject* object, Source* place) {
    Value* held = tracer_.outside(place, object);
    bool is_known = held->source == place || std::ranges::any_of(owners_, [&](const Owner& owner) {
                        return owner.held == held && owner.place == place;
                    });
    if (is_known) return;
    owners_.push_back({held, place});
    tracer_.on_undo([this] { owners_.pop_back(); });
}

/// The container of a loop that is over may still be where it was.
bool Lifetimes::find_owner_of_container(const Source& item, const std::vector<const Value*>& roots) {
    const auto* iterator = dynamic_cast<const OutsideIterator*>(item.parent->value);
    PyObject* container = iterator == nullptr ? nullptr : cpython::walked_over(iterator->outside, 0).get();
    if (container == nullptr || cpython::inner_iterator(iterator->outside, 0) != nullptr) return false;
    Source* place = path_to(tracer_, roots, container);
    if (place == nullptr) return false;
    tracer_.outside(tracer_.provenance().child(iterator->source, Access::WalkedOver, nullptr, 0, container), container);
    add_owner(container, place);
    return true;
}

bool Lifetimes::find_owner(Value* lost, const RemainingFrames& remaining, const HeldValues& held) {
    std::vector<const Value*> roots;
    add_frame_roots(remaining, roots);
    for (const Value* root : roots) {
        const auto* iterator = dynamic_cast<const OutsideIterator*>(root);
        Source* place = iterator == nullptr ? nullptr : last_item_place(tracer_, iterator, lost->object());
        if (place == nullptr) continue;
        add_owner(lost->object(), place);
        if (is_kept(lost, &held)) return true;
    }
    // A path to the container serves all iterations, one to the object only this one.
    for (std::size_t i = 0; i < owners_.size(); ++i) {
        const Source* place = owners_[i].place;
        bool is_item = owners_[i].held == lost && place->access == Access::Upcoming;
        if (is_item && find_owner_of_container(*place, roots) && is_kept(lost, &held)) return true;
    }
    Source* place = path_to(tracer_, roots, lost->object());
    if (place == nullptr) return false;
    add_owner(lost->object(), place);
    return is_kept(lost, &held);
}

// --- objects that may be dropped ------------------------------------------------------------------------------------

/// What an object shares with owners that the trace has not read. Which of them are freed with it is checked by
/// reference counts before each call, so no guards are needed on owners that are found here.
struct Lifetimes::Sharing {
    const Lifetimes& lifetimes;
    const std::vector<const Value*>* roots;  // where owners are looked for; may be null
    const HeldValues* held;
    std::vector<const Source*>* found;  // the places of owners are added here
    bool* leans_on_frames = nullptr;    // set where an open frame is the owner

    bool is_freed(PyObject* shared) const {
        // The trace itself holds several references to objects that it has read, not all of which `known` finds.
        constexpr Py_ssize_t kOwnReferences = 8;
        if (const Value* value = lifetimes.tracer_.known(shared)) {
            if (has_ended(value)) return false;
            if (roots != nullptr && std::ranges::find(*roots, value) != roots->end()) {
                *leans_on_frames = true;
                return false;
            }
            if (value->source != nullptr && lifetimes.is_kept(value, nullptr)) return false;
        } else {
            bool may_be_referred_to = PyDict_CheckExact(shared) || PyTuple_CheckExact(shared) || PyCell_Check(shared) ||
                                      PyFunction_Check(shared) || PyMethod_Check(shared) || PyList_CheckExact(shared) ||
                                      PyFrame_Check(shared) || PyTraceBack_Check(shared) ||
                                      PyExceptionInstance_Check(shared);
            if (!may_be_referred_to || Py_REFCNT(shared) > 1 + kOwnReferences) return false;
        }
        Source* place = roots == nullptr ? nullptr : path_to(lifetimes.tracer_, *roots, shared);
        if (place == nullptr || !lifetimes.is_in_place(place, held)) return true;
        found->push_back(place);
        return false;
    }
};

bool Lifetimes::is_freed_without_code(PyObject* object, const Sharing& sharing) {
    auto is_freed = [](PyObject* shared, void* context) {
        return static_cast<const Sharing*>(context)->is_freed(shared);
    };
    cpython::SharedContents shared{is_freed, const_cast<Sharing*>(&sharing)};
    return cpython::is_freed_without_code(object, &shared);
}

bool Lifetimes::is_freed_without_code(PyObject* object) const {
    return is_freed_without_code(object, Sharing{*this, nullptr, nullptr, nullptr});
}

bool Lifetimes::shares_what_runs_code(Watched& watched, const RemainingFrames& remaining,
                                      const HeldValues& held) const {
    PyObject* object = watched.value->object();
    if (cpython::has_finalizer(object)) return false;
    std::vector<const Value*> roots;
    add_frame_roots(remaining, roots);
    watched.contents_at.clear();
    bool leans_on_frames = false;
    const bool shares =
        is_freed_without_code(object, Sharing{*this, &roots, &held, &watched.contents_at, &leans_on_frames});
    // Frames are left while the trace goes on, and then this is asked once more.
    if (leans_on_frames) watched.contents_at.clear();
    return shares;
}

void Lifetimes::watch(Value* value) {
    if (value == nullptr || is_plain(value) || value->source == nullptr || value->object() == nullptr) return;
    auto is_it = [value](const Watched& watched) { return watched.value == value; };
    if (std::ranges::any_of(watched_, is_it)) return;
    // Most are tensors, and hardly any tensor has a finalizer.
    bool runs_no_code = value->kind == Kind::Tensor && !cpython::has_finalizer(value->object());
    watched_.push_back({value, runs_no_code, {}});
    if (!runs_no_code) ++may_run_code_;
}

void Lifetimes::watch_entered_frame() {
    is_entered_alone_ = true;
    const auto& frame = static_cast<const BytecodeFrame&>(*stack_.frames.front());
    auto note = [this](Value* value) {
        // As long as the constant needs no guard, the variable may hold any object in another call.
        if (value != nullptr && value->source != nullptr && is_plain(value)) unread_.push_back(value->source);
        watch(value);
    };
    std::ranges::for_each(frame.slots, note);
    std::ranges::for_each(frame.stack, note);
}

void Lifetimes::watch_generator(GeneratorValue* generator) {
    tracer_.on_undo([this, watched = watched_, may_run_code = may_run_code_] {
        watched_ = watched;
        may_run_code_ = may_run_code;
    });
    auto note = [this](Value* value) { watch(value); };
    note(generator);
    // It is not suspended where it was when it was watched first.
    for (Watched& watched : watched_)
        if (watched.value == generator && std::exchange(watched.runs_no_code, false)) ++may_run_code_;
    std::ranges::for_each(generator->frame->held_slots(), note);
    std::ranges::for_each(generator->frame->held_stack(), note);
}

void Lifetimes::replace(DroppedObject::Place place, Value* holder, PyObject* key, PyObject* old) {
    auto is_it = [&](const Replaced& other) {
        return other.place == place && other.holder == holder && other.key == key;
    };
    Value* value = old == nullptr ? nullptr : tracer_.known(old);
    if (value != nullptr)
        watch(value);
    else if (old != nullptr && !is_freed_without_code(old))
        tracer_.break_graph(BreakKind::Finalizer,
                            print(*holder->source) + " drops its reference to " + describe_finalizer(old));
    if (std::ranges::any_of(replaced_, is_it)) return;
    if (key != nullptr) tracer_.keep(Ref<>::share(key));
    replaced_.push_back({place, holder, key, value});
    tracer_.on_undo([this] { replaced_.pop_back(); });
}

std::string Lifetimes::describe_finalizer(PyObject* object) const {
    std::string name = type_name(Py_TYPE(object));
    if (!cpython::has_finalizer(object))
        return "an object of class " + name +
               ", which owns an object whose __del__ or weak reference callback runs code when it is freed";
    return "an object of class " + name + ", whose __del__ or weak reference callback runs code when it is freed";
}

void Lifetimes::note_replaced(const Effect& effect) {
    Value* holder = effect.from[0];
    PyObject* real = holder->source == nullptr ? nullptr : holder->object();
    if (real == nullptr) return;
    switch (effect.op) {
        case PlanOp::SetAttribute:
            return replace(DroppedObject::Place::Attribute, holder, effect.object,
                           held_at({DroppedObject::Place::Attribute, 0, effect.object}, real).get());
        case PlanOp::SetCell:
            return replace(DroppedObject::Place::Cell, holder, nullptr, cpython::cell_contents(real));
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

void Lifetimes::note_replaced_item(Value* dict, PyObject* real, Value* key) {
    // (That an int which changes is none of the keys is guarded by relations.)
    const bool is_complete = static_cast<DictValue*>(dict)->complete;
    if (is_complete && is_changing_int(key) && cpython::item_without_hashing(real, key->object()) == nullptr) return;
    Ref<> constant = key->as_constant(tracer_);
    PyObject* wanted = constant ? tracer_.keep(std::move(constant)) : key->object();
    if (wanted == nullptr) return;
    PyObject* old = cpython::item_without_hashing(real, wanted);
    replace(DroppedObject::Place::Item, dict, wanted, old);
}

/// An item that is removed was read before; but a container that is cleared may hold items that were not.
void Lifetimes::note_contents(Value* holder, PyObject* real) {
    bool is_container = PyList_Check(real) || PyDict_Check(real) || PyAnySet_Check(real) || cpython::is_deque(real);
    if (!is_container) return;
    auto watch_item = [](PyObject* item, void* context) {
        auto& self = *static_cast<Lifetimes*>(context);
        self.watch(self.tracer_.known(item));
        return 0;
    };
    Py_TYPE(real)->tp_traverse(real, watch_item, this);
    if (holder->kind != Kind::List && !is_freed_without_code(real))
        tracer_.break_graph(BreakKind::Finalizer,
                            print(*holder->source) + " drops its reference to " + describe_finalizer(real));
    replace(DroppedObject::Place::Contents, holder, nullptr, nullptr);
}

// --- checks ---------------------------------------------------------------------------------------------------------

const Value* Lifetimes::find_lost(const RemainingFrames& remaining) {
    std::optional<HeldValues> held;
    for (Watched& watched : watched_) {
        if (watched.runs_no_code || has_ended(watched.value)) continue;
        if (is_kept(watched.value, nullptr)) continue;
        auto is_there = [&](const Source* place) { return is_in_place(place, nullptr); };
        if (!watched.contents_at.empty() && std::ranges::all_of(watched.contents_at, is_there)) continue;
        if (!is_advanced(watched.value) && is_freed_without_code(watched.value->object())) {
            watched.runs_no_code = true;
            --may_run_code_;
            continue;
        }
        if (!held) held = held_values(remaining);
        if (held->contains(watched.value) || is_kept(watched.value, &*held)) continue;
        if (!is_advanced(watched.value) && shares_what_runs_code(watched, remaining, *held)) continue;
        if (find_owner(watched.value, remaining, *held)) continue;
        return watched.value;
    }
    return nullptr;
}

void Lifetimes::refuse_to_lose(const Value* lost) const {
    tracer_.break_graph(BreakKind::Finalizer, "the program drops " + describe_finalizer(lost->object()));
}

void Lifetimes::check_instruction() {
    const Value* lost = find_lost(all_frames());
    if (lost == nullptr) return;
    // The instruction is over, and is rolled back as a whole.
    const CallStack::InstructionStart& start = stack_.start;
    if (stack_.frames.size() < start.depth)
        throw Break{BreakKind::Finalizer, "the program drops " + describe_finalizer(lost->object()), false};
    auto& started = static_cast<BytecodeFrame&>(*stack_.frames[start.depth - 1]);
    started.stack = start.stack;
    started.at = start.at;
    refuse_to_lose(lost);
}

void Lifetimes::check_return(const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    if (stack_.frames.size() == 1) return find_dropped();
    if (!needs_checks()) return;
    const Value* returned = instruction.op == bytecode::Op::ReturnValue ? frame.top() : nullptr;
    if (const Value* lost = find_lost({stack_.frames.size() - 1, static_cast<std::size_t>(-1), returned, true}))
        refuse_to_lose(lost);
}

void Lifetimes::check_unwinding(const Value* exception) {
    if (!needs_checks()) return;
    // (The traceback would keep the frames and their variables alive. That is not modelled.)
    for (std::size_t count = stack_.frames.size(); count > 0; --count) {
        if (stack_.frames[count - 1]->is_task) continue;
        const auto& frame = static_cast<const BytecodeFrame&>(*stack_.frames[count - 1]);
        const bytecode::Handler* handler = frame.code->handler_for(frame.at);
        if (handler == nullptr && count > 1) continue;
        auto depth = handler == nullptr ? 0 : static_cast<std::size_t>(handler->depth);
        if (const Value* lost = find_lost({count, depth, exception, false})) refuse_to_lose(lost);
        return;
    }
}

void Lifetimes::expect_held(const Value* value) {
    if (watched_.empty() && replaced_.empty()) return;
    HeldValues held = held_values(all_frames());
    if (held.contains(value) || is_kept(value, &held)) return;
    // The trace knows it only by weak references: its owner may be among the dropped objects.
    bool is_only_referent = value->source->access == Access::Referent;
    bool has_lost = std::ranges::any_of(watched_, [&](const Watched& watched) {
        return watched.value->kind != Kind::Tensor && !held.contains(watched.value) && !is_kept(watched.value, &held);
    });
    if (is_only_referent && !has_lost && replaced_.empty()) return;
    tracer_.break_graph(BreakKind::Finalizer, "a weak reference is dereferenced after the program dropped the object");
}

void Lifetimes::find_dropped() {
    dropped_.clear();
    if (watched_.empty() && replaced_.empty() && unread_.empty()) return;
    HeldValues held = held_values(all_frames());
    auto is_held = [&](const Value* value) { return held.contains(value) || is_kept(value, &held); };
    for (const Source* slot : unread_)
        if (!slot->value->realized && !is_unchanged(*slot))
            dropped_.push_back({DroppedObject::Place::Itself, slot->value->source, nullptr});
    for (const Watched& watched : watched_)
        if (!has_ended(watched.value) && !is_held(watched.value))
            dropped_.push_back({DroppedObject::Place::Itself, watched.value->source, nullptr});
    for (const Replaced& replaced : replaced_)
        if (replaced.old == nullptr) dropped_.push_back({replaced.place, replaced.holder->source, replaced.key});
}

void Lifetimes::add_dropped(PlanBuilder& plan) const {
    for (const Dropped& dropped : dropped_) plan.add_dropped(dropped.place, dropped.source, dropped.key);
}

}  // namespace stator
