/// Changes of what came from outside: logged while tracing, replayed by the plan on the real objects.
#include <algorithm>
#include <unordered_set>

#include "base/names.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "trace/interpreter.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"

namespace stator {

namespace {

bool is_from_python(PyTypeObject* type, const char* method) {
    PyObject* raw = cpython::lookup_in_mro(type, interned(method), nullptr);
    return raw != nullptr && Py_TYPE(raw) != &PyWrapperDescr_Type && raw != Py_None;
}

/// Whether a real dict or set can take it without running the program's code, which would be once too often and might
/// fail half-way.
bool is_quiet_key(const Value* key) {
    if (key == nullptr) return true;
    if (auto* tuple = cast<TupleValue>(key); tuple != nullptr && !is_from_python(tuple->class_, "__hash__"))
        return std::ranges::all_of(tuple->items, [](Value* item) { return is_quiet_key(item); });
    if (auto* set = cast<SetValue>(key); set != nullptr && set->is_frozen())
        return std::ranges::all_of(set->table.all(), [](const Table::Entry& entry) { return is_quiet_key(entry.key); });
    if (key->kind == Kind::Tensor) return true;
    return !is_from_python(key->type(), "__hash__") && !is_from_python(key->type(), "__eq__");
}

/// What of an effect will be hashed.
std::vector<const Value*> keys_of(const Effect& effect) {
    const Value* changed = effect.from[0];
    if (changed->kind == Kind::Dict && effect.from.size() > 1 && effect.op != PlanOp::SetAttribute)
        return {effect.from[1]};
    if (changed->kind != Kind::Set || effect.op == PlanOp::SetAttribute) return {};
    std::vector<const Value*> keys;
    for (std::size_t i = 1; i < effect.from.size(); ++i) {
        if (auto* set = cast<SetValue>(effect.from[i]); set != nullptr && effect.op == PlanOp::Call) {
            for (const Table::Entry& entry : set->table.all()) keys.push_back(entry.key);
        } else if (auto* list = cast<ListValue>(effect.from[i])) {
            keys.insert(keys.end(), list->items.begin(), list->items.end());
        } else {
            keys.push_back(effect.from[i]);
        }
    }
    return keys;
}

}  // namespace

void Interpreter::record(Effect effect) {
    STATOR_DCHECK(effect.from[0]->source != nullptr || effect.from[0]->kind == Kind::Context,
                  "what was made in the trace is rebuilt as it is in the end");
    if (!std::ranges::all_of(keys_of(effect), is_quiet_key))
        break_graph(BreakKind::OutsideMutation,
                    print(*effect.from[0]->source) +
                        ", which existed before the call, gets a key with a user-defined __hash__ or __eq__");
    if (effect.object != nullptr) keep(Ref<>::share(effect.object));
    note_replaced(effect);
    effects_.push_back(std::move(effect));
    on_undo([this] { effects_.pop_back(); });
}

void Interpreter::will_mutate(Value* value) {
    if (value->source == nullptr) return;
    break_graph(BreakKind::OutsideMutation,
                print(*value->source) + ", which existed before the call, is mutated in a way that can't be replayed");
}

void Interpreter::replay_effects(PlanBuilder& plan) {
    for (const Effect& effect : effects_) {
        if (effect.result != nullptr) {
            effect.result->rebuild(plan);
            continue;
        }
        std::vector<std::int32_t> from;
        from.reserve(effect.from.size());
        for (Value* value : effect.from) from.push_back(value == nullptr ? -1 : value->rebuild(plan));
        plan.add(effect.op, std::move(from), effect.object);
    }
}

void Interpreter::add_distinct(std::vector<Source*>& sources) const {
    std::unordered_set<Source*> known(sources.begin(), sources.end());
    auto add = [&](Source* source) {
        if (known.insert(source).second) sources.push_back(source);
    };
    for (Source* source : told_apart_) add(source);
    std::unordered_set<PyTypeObject*> changed;
    for (const Effect& effect : effects_) {
        const Source* source = effect.from[0]->source;
        if (source == nullptr) continue;
        changed.insert(effect.from[0]->type());
        if (source->access == Access::InstanceDict) changed.insert(Py_TYPE(source->parent->object));
    }
    if (changed.empty() && written_.empty()) return;
    // Two objects of one class may be one object next time: then a change of the one would be a change of the other. A
    // write changes a tensor's metadata too.
    for (auto [object, value] : by_identity_) {
        bool has_grown = value->kind == Kind::List && !static_cast<const ListValue*>(value)->appended.empty();
        bool is_looked_at = value->realized || has_grown || value->kind == Kind::Cell;
        bool is_tensor = value->kind == Kind::Tensor || value->kind == Kind::TensorObject;
        if (is_looked_at && is_tensor && !written_.empty()) add(value->source);
        if (is_looked_at && value->kind != Kind::Tensor && changed.contains(value->type())) add(value->source);
    }
}

}  // namespace stator
