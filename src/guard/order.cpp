#include <algorithm>

#include "base/check.h"
#include "guard/build.h"

namespace stator {

namespace {

/// Whether `__class__` of an instance of exactly this class can't be assigned.
bool keeps_instances(PyTypeObject* type) {
    return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && !PyType_IsSubtype(type, &PyModule_Type);
}

/// Whether a source stays as it is while its dict has the same version: not one by the order of an OrderedDict, which
/// has no part in that.
bool is_in_dict_block(const Source& source) {
    if (source.access != Access::Entry) return source.access == Access::DictItem;
    PyObject* dict = source.parent->object;
    return dict != nullptr && (!PyODict_Check(dict) || PyDict_GET_SIZE(dict) == 1);
}

bool is_in_block(const Source& source) {
    return is_in_dict_block(source) || source.access == Access::ClassAttribute;
}

/// Whether SafeKeys has to check the other keys before this key is looked up.
bool is_looked_up(PyObject* key) {
    return !PyUnicode_CheckExact(key) && is_constant_key(key);
}

}  // namespace

GuardBuilder::When GuardBuilder::when(const Fact& fact) const {
    const Draft& draft = drafts_[fact.place];
    PyObject* seen = draft.source->object;
    switch (fact.kind) {
        case GuardKind::Present:
        case GuardKind::Absent:
            return When::Never;  // implied by the fetch
        case GuardKind::Type: {
            auto* type = reinterpret_cast<PyTypeObject*>(fact.expected);
            bool implied = any_fact(draft, [&](const Fact& other) {
                if (other.kind == GuardKind::Tensor) return state_.tensors[other.tensor].type == type;
                return other.kind == GuardKind::Constant && Py_TYPE(other.expected) == type && keeps_instances(type);
            });
            return implied ? When::Never : keeps_instances(type) ? When::Lasting : When::Always;
        }
        case GuardKind::Identity:
            return draft.source->access == Access::Pinned && seen == fact.expected ? When::Never : When::Lasting;
        case GuardKind::Constant:
            return When::Lasting;
        case GuardKind::Length:
            if (seen != nullptr && PyDict_Check(seen)) return When::Block;
            return seen != nullptr && PyTuple_Check(seen) ? When::Lasting : When::Always;
        case GuardKind::HasNoKey:
            return When::Block;
        case GuardKind::Keys:
            return has_own_order(fact) ? When::Always : When::Block;
        case GuardKind::Function:
        case GuardKind::Elements:
        case GuardKind::Tensor:
        case GuardKind::Autograd:
        case GuardKind::Offset:
        case GuardKind::Subclass:
            return When::Always;
        case GuardKind::Flattened:
            return When::AtEnd;
        case GuardKind::Same:
        case GuardKind::Different:
        case GuardKind::Expression:
            return When::Last;
    }
    return When::Always;
}

bool GuardBuilder::has_own_order(const Fact& keys) const {
    PyObject* seen = drafts_[keys.place].source->object;
    return seen != nullptr && PyODict_Check(seen) && PyTuple_GET_SIZE(keys.expected) > 1;
}

bool GuardBuilder::is_lasting(const Source& source) {
    PyObject* parent = source.parent->object;
    switch (source.access) {
        case Access::Globals:
        case Access::Builtins:
        case Access::ClosureCell:
        case Access::MethodSelf:
        case Access::MethodFunction:
            return true;
        case Access::Item:
            return parent != nullptr && PyTuple_Check(parent);
        case Access::InstanceDict:
            return parent != nullptr && PyModule_Check(parent);
        default:
            return false;
    }
}

void GuardBuilder::emit_all() {
    // A work list, not recursion: modules nest deeper than the C stack allows.
    for (std::int32_t root : roots_) place(root);
    take_deferred();
    while (!tasks_.empty()) {
        std::int32_t next = tasks_.back();
        tasks_.pop_back();
        finish(next);
        take_deferred();
    }
    for (std::size_t i = 0; i < state_.facts.size(); ++i)
        if (when(state_.facts[i]) == When::Last) emit_check(static_cast<std::int32_t>(i));
    // These run code, which may free what registers borrow.
    for (std::size_t i = 0; i < state_.facts.size(); ++i)
        if (when(state_.facts[i]) == When::AtEnd) emit_check(static_cast<std::int32_t>(i));
}

/// Sources without children go first: a call with another tensor should fail before the whole model is checked.
void GuardBuilder::take_deferred() {
    std::stable_partition(deferred_.begin(), deferred_.end(),
                          [&](std::int32_t index) { return drafts_[index].first_child == kNone; });
    tasks_.insert(tasks_.end(), deferred_.rbegin(), deferred_.rend());
    deferred_.clear();
}

void GuardBuilder::place(std::int32_t top) {
    to_place_.push_back(top);
    while (!to_place_.empty()) {
        std::int32_t index = to_place_.back();
        to_place_.pop_back();
        const Draft& draft = drafts_[index];
        emit_fetch(index);
        bool has_rest = false;
        for (std::int32_t fact = draft.first_fact; fact != kNone; fact = next_fact_[fact]) {
            When moment = when(state_.facts[fact]);
            if (moment == When::Lasting) emit_check(fact);
            has_rest |= moment == When::Block || moment == When::Always;
        }
        std::size_t before = to_place_.size();
        for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling) {
            STATOR_CHECK(!draft.absent, "an absent source has children");
            if (is_lasting(*drafts_[child].source))
                to_place_.push_back(child);
            else
                has_rest = true;
        }
        std::reverse(to_place_.begin() + static_cast<std::ptrdiff_t>(before), to_place_.end());
        if (has_rest) deferred_.push_back(index);
    }
}

void GuardBuilder::finish(std::int32_t index) {
    const Draft& draft = drafts_[index];
    bool dict_block = draft.fetched_by_block, class_block = false;
    for (std::int32_t fact = draft.first_fact; fact != kNone; fact = next_fact_[fact]) {
        When moment = when(state_.facts[fact]);
        if (moment == When::Always) emit_check(fact);
        dict_block |= moment == When::Block;
    }
    for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling) {
        const Source& source = *drafts_[child].source;
        dict_block |= is_in_dict_block(source);
        class_block |= source.access == Access::ClassAttribute;
        if (!is_in_block(source) && !is_lasting(source)) place(child);
    }
    if (dict_block) emit_dict_block(index);
    if (class_block) emit_class_block(index);
}

void GuardBuilder::emit_dict_block(std::int32_t index) {
    const Draft& draft = drafts_[index];
    std::int32_t enter;
    if (draft.fetched_by_block)
        enter = emit({.op = draft.without_dict ? StepOp::EnterInstanceDict : StepOp::MakeInstanceDict,
                      .to = index,
                      .from = state_.places[index].parent});
    else
        enter = emit({.op = StepOp::EnterDict, .from = index});
    if (looks_up_constants(draft)) emit({.op = StepOp::SafeKeys, .from = index});
    for (std::int32_t fact = draft.first_fact; fact != kNone; fact = next_fact_[fact])
        if (when(state_.facts[fact]) == When::Block) emit_check(fact);
    for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling)
        if (is_in_dict_block(*drafts_[child].source)) place(child);
    state_.steps[enter].number = emit({.op = StepOp::LeaveDict, .from = index, .number = enter});
}

void GuardBuilder::emit_class_block(std::int32_t index) {
    std::int32_t enter = emit({.op = StepOp::EnterClass, .from = index});
    for (std::int32_t child = drafts_[index].first_child; child != kNone; child = drafts_[child].next_sibling)
        if (drafts_[child].source->access == Access::ClassAttribute) place(child);
    state_.steps[enter].number = emit({.op = StepOp::LeaveClass, .from = index, .number = enter});
}

bool GuardBuilder::looks_up_constants(const Draft& draft) const {
    for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling)
        if (drafts_[child].source->access == Access::DictItem && is_looked_up(drafts_[child].source->key)) return true;
    return any_fact(draft,
                    [](const Fact& fact) { return fact.kind == GuardKind::HasNoKey && is_looked_up(fact.expected); });
}

void GuardBuilder::plan_instance_dict(Draft& draft) const {
    if (draft.used || draft.absent) return;
    bool only_looked_into = draft.first_child != kNone || draft.first_fact != kNone;
    bool only_attributes = true;
    for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling) {
        const Source& source = *drafts_[child].source;
        only_looked_into &= source.access == Access::DictItem;
        only_attributes &= source.access == Access::DictItem && PyUnicode_CheckExact(source.key);
    }
    for (std::int32_t i = draft.first_fact; i != kNone; i = next_fact_[i]) {
        const Fact& fact = state_.facts[i];
        only_looked_into &= when(fact) == When::Block;
        only_attributes &= fact.kind == GuardKind::HasNoKey && PyUnicode_CheckExact(fact.expected);
    }
    draft.fetched_by_block = only_looked_into;
    draft.without_dict = only_looked_into && only_attributes;
}

}  // namespace stator
