#include "trace/exits/effects.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "trace/recorder/function_transforms.h"
#include "value/builtins/config_patches.h"
#include "value/kinds/dict.h"
#include "value/kinds/generator.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/keys.h"

namespace stator {

namespace {

bool is_from_python(PyTypeObject* type, const char* method) {
    PyObject* raw = cpython::lookup_in_mro(type, interned(method), nullptr);
    return raw != nullptr && Py_TYPE(raw) != &PyWrapperDescr_Type && raw != Py_None;
}

/// Whether a real dict or set can take a key without running code of the program. The program has run that code
/// already, and it might raise while the plan runs.
bool hashes_without_code(const Value* key) {
    if (key == nullptr) return true;
    if (auto* tuple = cast<TupleValue>(key); tuple != nullptr && !is_from_python(tuple->class_, "__hash__"))
        return std::ranges::all_of(tuple->items, [](Value* item) { return hashes_without_code(item); });
    if (auto* set = cast<SetValue>(key); set != nullptr && set->is_frozen())
        return std::ranges::all_of(set->table.all(),
                                   [](const Table::Entry& entry) { return hashes_without_code(entry.key); });
    if (key->kind == Kind::Tensor) return true;
    return !is_from_python(key->type(), "__hash__") && !is_from_python(key->type(), "__eq__");
}

/// The values that the plan hashes when it makes a mutation.
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

/// Whether the plan can assign an item without calling the `__hash__` of its key, which the trace has called. Nor does
/// it call an `__eq__`: a key of the dict that equals this one is this one.
bool is_item_by_hash(const Effect& effect) {
    if (effect.op != PlanOp::SetItem || effect.from[2] == nullptr) return false;
    auto* dict = cast<DictValue>(effect.from[0]);
    Value* key = effect.from[1];
    if (dict == nullptr || dict->class_ != &PyDict_Type || key->kind != Kind::Object || !has_own_hash(key))
        return false;
    auto* object = static_cast<ObjectValue*>(key);
    if (!object->known_hash) return false;
    return std::ranges::none_of(dict->table.entries(), [&](const Table::Entry* entry) {
        return entry->hash == *object->known_hash && entry->key != key;
    });
}

}  // namespace

void EffectWriter::log(Effect effect) {
    STATOR_DCHECK(
        effect.from[0]->source != nullptr || effect.from[0]->kind == Kind::Context || effect.result != nullptr,
        "an object made in the trace is rebuilt in its last state");
    if (is_item_by_hash(effect))
        effect.object =
            tracer_.keep(checked(PyLong_FromSsize_t(*static_cast<ObjectValue*>(effect.from[1])->known_hash)));
    else if (!std::ranges::all_of(keys_of(effect), hashes_without_code))
        tracer_.break_graph(BreakKind::OutsideMutation,
                            print(*effect.from[0]->source) +
                                ", which existed before the call, gets a key with a user-defined __hash__ or __eq__");
    if (effect.object != nullptr) tracer_.keep(Ref<>::share(effect.object));
    lifetimes_.note_replaced(effect);
    if (const Value* changed = effect.from[0]; trace_log_ != nullptr && changed->source != nullptr) {
        const std::size_t position = trace_log_->note_effect(print(*changed->source), type_name(changed->type()));
        tracer_.on_undo([log = trace_log_, position] { log->undo(position); });
    }
    effects_.push_back(std::move(effect));
    tracer_.on_undo([this] { effects_.pop_back(); });
}

void EffectWriter::note_change_of_made(const Value* value) {
    if (trace_log_ == nullptr) return;
    const auto known = std::ranges::find(changes_of_made_, value, &std::pair<std::size_t, const Value*>::second);
    const int number = static_cast<int>(known - changes_of_made_.begin()) + 1;
    const std::size_t position = trace_log_->note_effect("", type_name(value->type()), number);
    changes_of_made_.emplace_back(position, value);
    tracer_.on_undo([log = trace_log_, position] { log->undo(position); });
}

void EffectWriter::forget_from(std::size_t count) {
    if (count == effects_.size()) return;
    tracer_.on_undo([this, before = effects_] { effects_ = before; });
    effects_.resize(count);
}

void EffectWriter::forget_dropped(const PlanBuilder& plan) const {
    for (const auto& [position, value] : changes_of_made_)
        if (plan.known(value) < 0) trace_log_->undo(position);
}

void EffectWriter::expect_made_in_trace(const Value* value) {
    if (value->source == nullptr) return;
    tracer_.break_graph(
        BreakKind::OutsideMutation,
        print(*value->source) + ", which existed before the call, is mutated in a way that can't be replayed");
}

namespace {

bool is_wrapped_tensor(const Value* value) {
    auto* tensor = cast<TensorValue>(value);
    return tensor != nullptr && tensor->meta != nullptr && tensor->source == nullptr && is_wrapped(tensor);
}

bool is_assignment(const Effect& effect) {
    return effect.op == PlanOp::SetItem || effect.op == PlanOp::SetAttribute;
}

/// Whether two assignments are to the same attribute, or the same item of a dict with strings as keys.
bool assign_to_same(const Effect& one, const Effect& other) {
    if (one.op != other.op || one.from[0] != other.from[0]) return false;
    if (one.op == PlanOp::SetAttribute) return one.object == other.object;
    PyObject *left = one.from[1]->object(), *right = other.from[1]->object();
    return left != nullptr && right != nullptr && PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right) &&
           PyUnicode_Compare(left, right) == 0;
}

/// What to assign instead of a tensor that a function transform has wrapped, which exists only inside of the graph:
/// `torch.func.functional_call` assigns such tensors to a module, and then the module's own again. Nothing runs between
/// the two, so the later value can be assigned at once. The same value if there is no later one.
Value* assigned(std::span<const Effect> effects, std::size_t index) {
    const Effect& effect = effects[index];
    Value* value = effect.from.back();
    for (std::size_t i = index + 1; i < effects.size() && is_wrapped_tensor(value); ++i) {
        if (effects[i].from[0] != effect.from[0]) continue;
        if (!is_assignment(effects[i]) || effects[i].from.back() == nullptr) break;
        if (assign_to_same(effect, effects[i])) value = effects[i].from.back();
    }
    return value;
}

}  // namespace

void EffectWriter::replay(PlanBuilder& plan) const {
    const std::vector<bool> is_left_out = balanced_patches(effects_);
    for (std::size_t i = 0; i < effects_.size(); ++i) {
        const Effect& effect = effects_[i];
        if (is_left_out[i]) continue;
        if (effect.result != nullptr) {
            effect.result->rebuild(plan);
            continue;
        }
        std::vector<std::int32_t> from;
        from.reserve(effect.from.size());
        for (Value* value : effect.from) {
            if (is_assignment(effect) && value == effect.from.back()) value = assigned(effects_, i);
            from.push_back(value == nullptr ? -1 : value->rebuild(plan));
        }
        if (const auto* generator = cast<GeneratorValue>(effect.from[0]); generator != nullptr)
            generator->write_state(plan, from[0]);
        else
            plan.add(effect.op, std::move(from), effect.object);
    }
}

std::vector<PyTypeObject*> EffectWriter::mutated_classes() const {
    std::vector<PyTypeObject*> classes;
    auto add = [&](PyTypeObject* type) {
        if (std::ranges::find(classes, type) == classes.end()) classes.push_back(type);
    };
    for (const Effect& effect : effects_) {
        const Source* source = effect.from[0]->source;
        if (source == nullptr) continue;
        add(effect.from[0]->type());
        if (source->access == Access::InstanceDict) add(Py_TYPE(source->parent->object));
    }
    return classes;
}

}  // namespace stator
