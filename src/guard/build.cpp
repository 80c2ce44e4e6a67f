/// From guards over a tree of sources to the steps of a program.
///
/// Where an object is known to be the one of the last check, because the dict or class that holds it did not change,
/// some of what was checked of it can't have changed either: its value if it is a constant, its items if it is a tuple,
/// its class if that is a builtin one. Such facts are called lasting here, and are checked inside the block of that
/// dict or class, to be skipped with it. Everything else comes after the block.
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "cpython/objects.h"
#include "guard/constants.h"
#include "guard/set_entries.h"
#include "guard/steps.h"

namespace stator {

namespace {

constexpr std::int32_t kNone = -1;
/// How many guards of one source are compared to find repetitions: enough for what tracing repeats.
constexpr int kComparedForRepetition = 8;

enum class When : std::uint8_t {
    Never,    // follows from another guard
    Lasting,  // with the fetch
    Block,    // in the block of the dict
    Always,   // after the block that holds the object
    Last,     // when everything is fetched
};

bool is_plain_string(PyObject* key) {
    return PyUnicode_CheckExact(key);
}

/// Whether an object of exactly this class can't be given another class.
bool keeps_instances(PyTypeObject* type) {
    return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && !PyType_IsSubtype(type, &PyModule_Type);
}

std::int32_t narrow(std::int64_t number) {
    STATOR_CHECK(number >= 0 && number <= std::numeric_limits<std::int32_t>::max(), "a guard's number is out of range");
    return static_cast<std::int32_t>(number);
}

}  // namespace

class GuardBuilder {
  public:
    using State = GuardProgram::State;

    explicit GuardBuilder(State& state) : state_(state) {}
    /// Sources are left as they were, so that another program can be built from them.
    ~GuardBuilder() {
        for (Draft& draft : drafts_) draft.source->register_number = kNone;
    }
    GuardBuilder(const GuardBuilder&) = delete;
    GuardBuilder& operator=(const GuardBuilder&) = delete;

    void build(std::span<const Guard> guards, std::span<Source* const> fetched, std::span<Source* const> all_distinct) {
        reserve(guards.size() + fetched.size());
        for (const Guard& guard : guards) add(guard);
        for (Source* source : fetched) state_.fetched_from.push_back(used(source));
        std::vector<std::int32_t> distinct;
        for (Source* source : all_distinct) distinct.push_back(used(source));
        state_.fetched.resize(fetched.size());
        state_.registers.resize(drafts_.size());

        emit_all();
        for (std::size_t i = 0; i < state_.facts.size(); ++i)
            if (when(state_.facts[i]) == When::Last) emit_check(static_cast<std::int32_t>(i));
        if (distinct.size() > 1) {
            state_.distinct = std::make_unique<DistinctObjects>(std::move(distinct));
            emit({.op = StepOp::AllDistinct});
        }
        emit({.op = StepOp::Done});
    }

  private:
    /// A source that is needed. Its index is its register.
    struct Draft {
        Source* source;
        std::int32_t first_fact = kNone, last_fact = kNone;
        std::int32_t first_child = kNone, last_child = kNone, next_sibling = kNone;
        bool absent = false;
        bool used = false;              // its object itself is wanted, not just what is reached through it
        bool fetched_by_block = false;  // an instance's dict that is fetched and entered in one step
        bool without_dict = false;      // ... and that the instance need not have
    };

    void reserve(std::size_t count) {
        drafts_.reserve(2 * count);
        next_fact_.reserve(count);
        state_.facts.reserve(count);
        state_.places.reserve(2 * count);
        state_.steps.reserve(3 * count);
        state_.fact_of_step.reserve(3 * count);
        state_.kept.reserve(3 * count);
    }

    PyObject* keep(PyObject* object) {
        state_.kept.push_back(Ref<>::share(object));
        return object;
    }

    // --- collecting ----------------------------------------------------------------------------------------------

    std::int32_t draft_of(Source* source) {
        if (source->register_number >= 0) return source->register_number;
        path_.clear();
        for (Source* step = source; step != nullptr && step->register_number < 0; step = step->parent)
            path_.push_back(step);
        for (auto step = path_.rbegin(); step != path_.rend(); ++step) add_draft(*step);
        return source->register_number;
    }

    void add_draft(Source* source) {
        auto index = static_cast<std::int32_t>(drafts_.size());
        std::int32_t parent = source->parent == nullptr ? kNone : source->parent->register_number;
        source->register_number = index;
        drafts_.push_back({source});
        state_.places.push_back({.access = source->access,
                                 .number = source->number,
                                 .parent = parent,
                                 .key = source->key == nullptr ? nullptr : keep(source->key),
                                 .object = source->access == Access::Pinned ? keep(source->object) : nullptr});
        if (parent == kNone) {
            roots_.push_back(index);
            return;
        }
        Draft& above = drafts_[parent];
        (above.last_child == kNone ? above.first_child : drafts_[above.last_child].next_sibling) = index;
        above.last_child = index;
    }

    std::int32_t used(Source* source) {
        std::int32_t index = draft_of(source);
        drafts_[index].used = true;
        return index;
    }

    void add(const Guard& guard) {
        Fact fact{
            .kind = guard.kind, .place = draft_of(guard.source), .number = guard.number, .expected = guard.expected};
        if (guard.other != nullptr) {
            fact.other = used(guard.other);
            drafts_[fact.place].used = true;
        }
        if (is_repetition(fact)) return;
        Draft& draft = drafts_[fact.place];
        switch (guard.kind) {
            case GuardKind::Absent:
                draft.absent = true;
                break;
            case GuardKind::Tensor:
                // The metadata is all that is kept: an entry must not keep its inputs alive.
                fact.tensor = static_cast<std::int32_t>(state_.tensors.size());
                state_.tensors.push_back(torch_room::make_check(guard.expected));
                keep(reinterpret_cast<PyObject*>(state_.tensors.back().type));
                fact.expected = nullptr;
                break;
            case GuardKind::Function: {
                STATOR_CHECK(PyFunction_Check(guard.expected), "a function guard needs a function");
                auto* function = reinterpret_cast<PyFunctionObject*>(guard.expected);
                keep(cpython::globals_of(function));
                fact.expected = keep(reinterpret_cast<PyObject*>(cpython::code_of(function)));
                break;
            }
            default:
                if (fact.expected != nullptr) keep(fact.expected);
        }
        auto index = static_cast<std::int32_t>(state_.facts.size());
        (draft.last_fact == kNone ? draft.first_fact : next_fact_[draft.last_fact]) = index;
        draft.last_fact = index;
        next_fact_.push_back(kNone);
        expected_.push_back(guard.expected);
        state_.facts.push_back(fact);
    }

    bool is_repetition(const Fact& fact) const {
        int compared = 0;
        for (std::int32_t i = drafts_[fact.place].first_fact; i != kNone && compared < kComparedForRepetition;
             ++compared) {
            const Fact& other = state_.facts[i];
            if (other.kind == fact.kind && other.number == fact.number && other.other == fact.other &&
                expected_[i] == fact.expected)
                return true;
            i = next_fact_[i];
        }
        return false;
    }

    // --- what can be skipped -------------------------------------------------------------------------------------

    template <class Test>
    bool any_fact(const Draft& draft, Test test) const {
        for (std::int32_t i = draft.first_fact; i != kNone; i = next_fact_[i])
            if (test(state_.facts[i])) return true;
        return false;
    }

    When when(const Fact& fact) const {
        const Draft& draft = drafts_[fact.place];
        PyObject* seen = draft.source->object;
        switch (fact.kind) {
            case GuardKind::Present:
            case GuardKind::Absent:
                return When::Never;  // the fetch says it
            case GuardKind::Type: {
                auto* type = reinterpret_cast<PyTypeObject*>(fact.expected);
                bool implied = any_fact(draft, [&](const Fact& other) {
                    if (other.kind == GuardKind::Tensor) return state_.tensors[other.tensor].type == type;
                    return other.kind == GuardKind::Constant && Py_TYPE(other.expected) == type;
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
                return When::Always;
            case GuardKind::Same:
            case GuardKind::Different:
                return When::Last;
        }
        return When::Always;
    }

    bool has_own_order(const Fact& keys) const {
        PyObject* seen = drafts_[keys.place].source->object;
        return seen != nullptr && PyODict_Check(seen) && PyTuple_GET_SIZE(keys.expected) > 1;
    }

    /// Whether one parent object always leads to one object by this access.
    static bool is_lasting(const Source& source) {
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

    static bool is_in_block(const Source& source) {
        return source.access == Access::DictItem || source.access == Access::ClassAttribute;
    }

    // --- emitting ------------------------------------------------------------------------------------------------

    std::int32_t emit(const Step& step, std::int32_t fact = kNone) {
        state_.steps.push_back(step);
        state_.fact_of_step.push_back(fact);
        return static_cast<std::int32_t>(state_.steps.size()) - 1;
    }

    void emit_all() {
        // A work list, not recursion: modules nest deeper than the C stack of a thread may be.
        for (std::int32_t root : roots_) place(root);
        take_deferred();
        while (!tasks_.empty()) {
            std::int32_t next = tasks_.back();
            tasks_.pop_back();
            finish(next);
            take_deferred();
        }
    }

    void take_deferred() {
        tasks_.insert(tasks_.end(), deferred_.rbegin(), deferred_.rend());
        deferred_.clear();
    }

    /// Fetches a source and everything lasting below it; the rest is deferred.
    void place(std::int32_t top) {
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
                STATOR_CHECK(!draft.absent, "something is read from what is absent");
                if (is_lasting(*drafts_[child].source))
                    to_place_.push_back(child);
                else
                    has_rest = true;
            }
            std::reverse(to_place_.begin() + static_cast<std::ptrdiff_t>(before), to_place_.end());
            if (has_rest) deferred_.push_back(index);
        }
    }

    /// What `place` left out: checks that never last, children that may have changed, and the blocks.
    void finish(std::int32_t index) {
        const Draft& draft = drafts_[index];
        bool dict_block = draft.fetched_by_block, class_block = false;
        for (std::int32_t fact = draft.first_fact; fact != kNone; fact = next_fact_[fact]) {
            When moment = when(state_.facts[fact]);
            if (moment == When::Always) emit_check(fact);
            dict_block |= moment == When::Block;
        }
        for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling) {
            const Source& source = *drafts_[child].source;
            dict_block |= source.access == Access::DictItem;
            class_block |= source.access == Access::ClassAttribute;
            if (!is_in_block(source) && !is_lasting(source)) place(child);
        }
        if (dict_block) emit_dict_block(index);
        if (class_block) emit_class_block(index);
    }

    void emit_dict_block(std::int32_t index) {
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
            if (drafts_[child].source->access == Access::DictItem) place(child);
        state_.steps[enter].number = emit({.op = StepOp::LeaveDict, .from = index, .number = enter});
    }

    void emit_class_block(std::int32_t index) {
        std::int32_t enter = emit({.op = StepOp::EnterClass, .from = index});
        for (std::int32_t child = drafts_[index].first_child; child != kNone; child = drafts_[child].next_sibling)
            if (drafts_[child].source->access == Access::ClassAttribute) place(child);
        state_.steps[enter].number = emit({.op = StepOp::LeaveClass, .from = index, .number = enter});
    }

    static bool is_looked_up(PyObject* key) { return !is_plain_string(key) && is_constant_key(key); }

    bool looks_up_constants(const Draft& draft) const {
        for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling)
            if (drafts_[child].source->access == Access::DictItem && is_looked_up(drafts_[child].source->key))
                return true;
        return any_fact(
            draft, [](const Fact& fact) { return fact.kind == GuardKind::HasNoKey && is_looked_up(fact.expected); });
    }

    /// Whether an instance's dict is only looked into, so that fetching it can wait for the block; `without_dict` if
    /// just for attributes, which an instance can have without a dict.
    void plan_instance_dict(Draft& draft) const {
        if (draft.used || draft.absent) return;
        bool only_looked_into = draft.first_child != kNone || draft.first_fact != kNone;
        bool only_attributes = true;
        for (std::int32_t child = draft.first_child; child != kNone; child = drafts_[child].next_sibling) {
            const Source& source = *drafts_[child].source;
            only_looked_into &= source.access == Access::DictItem;
            only_attributes &= source.access == Access::DictItem && is_plain_string(source.key);
        }
        for (std::int32_t i = draft.first_fact; i != kNone; i = next_fact_[i]) {
            const Fact& fact = state_.facts[i];
            only_looked_into &= when(fact) == When::Block;
            only_attributes &= fact.kind == GuardKind::HasNoKey && is_plain_string(fact.expected);
        }
        draft.fetched_by_block = only_looked_into;
        draft.without_dict = only_looked_into && only_attributes;
    }

    /// Whether the dict that was seen has the very object as a key, and not just one that is equal to it.
    static bool holds_key_itself(const Source& source) {
        PyObject* dict = source.parent->object;
        if (dict == nullptr || !PyDict_Check(dict)) return false;
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);)
            if (key == source.key) return true;
        return false;
    }

    void emit_fetch(std::int32_t index) {
        Draft& draft = drafts_[index];
        const Source& source = *draft.source;
        Step step{.op = StepOp::Slot,
                  .absent = draft.absent,
                  .to = index,
                  .from = state_.places[index].parent,
                  .number = source.number,
                  .object = source.key};
        switch (source.access) {
            case Access::Slot:
                break;
            case Access::Function:
                step.op = StepOp::Function;
                break;
            case Access::Pinned:
                state_.registers[index] = source.object;
                return;
            case Access::Globals:
                step.op = StepOp::Globals;
                break;
            case Access::Builtins:
                step.op = StepOp::Builtins;
                break;
            case Access::ClosureCell:
                step.op = StepOp::ClosureCell;
                break;
            case Access::CellContents:
                step.op = StepOp::CellContents;
                break;
            case Access::Default:
                step.op = StepOp::Default;
                break;
            case Access::KeywordDefault:
                STATOR_CHECK(is_plain_string(source.key), "the name of a parameter is a str");
                step.op = StepOp::KeywordDefault;
                break;
            case Access::Item:
                STATOR_CHECK(source.number >= 0, "items are counted from the start");
                STATOR_CHECK(source.parent->object != nullptr &&
                                 (PyTuple_Check(source.parent->object) || PyList_Check(source.parent->object)),
                             "only tuples and lists have items by number");
                step.op = PyTuple_Check(source.parent->object) ? StepOp::TupleItem : StepOp::ListItem;
                break;
            case Access::DictItem:
                step.op = is_plain_string(source.key)   ? StepOp::StringItem
                          : is_constant_key(source.key) ? StepOp::ConstantItem
                                                        : StepOp::IdentityItem;
                step.number = state_.places[step.from].parent;
                STATOR_CHECK(step.op != StepOp::IdentityItem || holds_key_itself(source),
                             "a key that can't be looked up without running its code");
                break;
            case Access::InstanceDict:
                if (source.parent->object != nullptr && PyModule_Check(source.parent->object)) {
                    step.op = StepOp::ModuleDict;
                    break;
                }
                plan_instance_dict(draft);
                if (draft.fetched_by_block) return;
                step.op = StepOp::InstanceDict;
                break;
            case Access::ClassAttribute:
                STATOR_CHECK(is_plain_string(source.key), "the name of an attribute is a str");
                step.op = StepOp::ClassAttribute;
                break;
            case Access::Member:
                describe_member(step, source);
                break;
            case Access::MethodSelf:
                step.op = StepOp::MethodSelf;
                break;
            case Access::MethodFunction:
                step.op = StepOp::MethodFunction;
                break;
        }
        emit(step);
    }

    void describe_member(Step& step, const Source& source) {
        STATOR_CHECK(source.parent->object != nullptr, "a member of nothing");
        PyObject* descriptor = cpython::lookup_in_mro(Py_TYPE(source.parent->object), source.key);
        STATOR_CHECK(descriptor != nullptr &&
                         (Py_IS_TYPE(descriptor, &PyMemberDescr_Type) || Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)),
                     "not a member of a class written in C, nor of __slots__");
        if (Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
            const PyMemberDef& member = *reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
            if (member.type == T_OBJECT || member.type == T_OBJECT_EX) {
                step.op = StepOp::Member;
                step.number = narrow(member.offset);
                step.object = keep(reinterpret_cast<PyObject*>(PyDescr_TYPE(descriptor)));
                step.extra = member.type == T_OBJECT ? Py_None : nullptr;
                return;
            }
        }
        step.op = StepOp::Computed;
        step.object = keep(descriptor);
        step.number = static_cast<std::int32_t>(state_.computed.size());
        state_.computed.emplace_back();
    }

    void emit_check(std::int32_t index) {
        const Fact& fact = state_.facts[index];
        const Draft& draft = drafts_[fact.place];
        Step step{.op = StepOp::Identity, .from = fact.place, .object = fact.expected};
        switch (fact.kind) {
            case GuardKind::Type:
                STATOR_CHECK(PyType_Check(fact.expected), "a type guard needs a class");
                step.op = StepOp::Type;
                break;
            case GuardKind::Identity:
                break;
            case GuardKind::Constant:
                step.op = StepOp::Constant;
                break;
            case GuardKind::Function:
                step.op = StepOp::FunctionCode;
                step.extra = cpython::globals_of(reinterpret_cast<PyFunctionObject*>(expected_[index]));
                break;
            case GuardKind::Length: {
                PyObject* seen = draft.source->object;
                STATOR_CHECK(seen != nullptr, "the length of nothing");
                step.number = narrow(fact.number);
                if (PyTuple_Check(seen))
                    step.op = StepOp::TupleLength;
                else if (PyList_Check(seen))
                    step.op = StepOp::ListLength;
                else if (PyDict_Check(seen))
                    step.op = StepOp::DictLength;
                else if (PyAnySet_Check(seen))
                    step.op = StepOp::SetLength;
                else
                    STATOR_CHECK(false, "a length guard needs a tuple, list, dict or set");
                break;
            }
            case GuardKind::HasNoKey:
                step.op = is_plain_string(fact.expected)   ? StepOp::NoStringKey
                          : is_constant_key(fact.expected) ? StepOp::NoConstantKey
                                                           : StepOp::NoIdentityKey;
                STATOR_CHECK(step.op != StepOp::NoIdentityKey || is_known_by_identity(fact.expected),
                             "a key that can't be looked up without running its code");
                step.number = state_.places[fact.place].parent;
                break;
            case GuardKind::Keys:
                STATOR_CHECK(PyTuple_CheckExact(fact.expected), "a guard on keys needs a tuple");
                step.op = has_own_order(fact) ? StepOp::OrderedKeys : StepOp::Keys;
                break;
            case GuardKind::Elements:
                step.op = StepOp::Elements;
                step.object = elements_in_order(draft.source->object, fact.expected);
                break;
            case GuardKind::Present:
            case GuardKind::Absent:
                return;
            case GuardKind::Tensor:
                step.op = StepOp::Tensor;
                step.number = fact.tensor;
                break;
            case GuardKind::Same:
            case GuardKind::Different:
                step.op = fact.kind == GuardKind::Same ? StepOp::Same : StepOp::Different;
                step.number = fact.other;
                break;
        }
        emit(step, index);
    }

    /// Equal sets may be iterated in different orders. What was traced had the order of the set that was seen.
    PyObject* elements_in_order(PyObject* seen, PyObject* expected) {
        STATOR_CHECK(PyAnySet_Check(expected), "a guard on elements needs a frozenset");
        PyObject* set = seen != nullptr && PyAnySet_Check(seen) && PySet_GET_SIZE(seen) == PySet_GET_SIZE(expected)
                            ? seen
                            : expected;
        Ref<> elements = Ref<>::steal(PyTuple_New(PySet_GET_SIZE(set)));
        STATOR_CHECK(elements, "out of memory");
        Py_ssize_t i = 0;
        for (SetEntries entries(set); entries.next(); ++i)
            PyTuple_SET_ITEM(elements.get(), i, Py_NewRef(entries.key()));
        return keep(elements.get());
    }

    State& state_;
    std::vector<Draft> drafts_;
    std::vector<std::int32_t> roots_;
    std::vector<std::int32_t> next_fact_;  // of the same source
    std::vector<PyObject*> expected_;      // of each guard as it was given, kept by the trace
    std::vector<Source*> path_;
    std::vector<std::int32_t> to_place_, deferred_, tasks_;
};

void GuardProgram::State::build(std::span<const Guard> guards, std::span<Source* const> fetched,
                                std::span<Source* const> all_distinct) {
    GuardBuilder(*this).build(guards, fetched, all_distinct);
}

}  // namespace stator
