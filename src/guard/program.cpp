#include "guard/program.h"

#include <utility>

#include "base/alive.h"
#include "base/check.h"
#include "base/collector_paused.h"
#include "base/short_list.h"
#include "cpython/abstract_classes.h"
#include "cpython/hashed_items.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "cpython/versions.h"
#include "cpython/weak.h"
#include "guard/constants.h"
#include "guard/numpy_numbers.h"
#include "guard/set_entries.h"
#include "guard/state.h"
#include "torch/arrays.h"
#include "torch/wrappers.h"

namespace stator {

namespace {

PyFunctionObject* as_function(PyObject* object) {
    return PyFunction_Check(object) ? reinterpret_cast<PyFunctionObject*>(object) : nullptr;
}

/// An item of a tuple that may be null.
PyObject* item_or_null(PyObject* tuple, Py_ssize_t index) {
    if (tuple == nullptr || !PyTuple_Check(tuple)) return nullptr;
    return index < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, index) : nullptr;
}

PyObject* look_up(PyObject* dict, PyObject* key) {
    PyObject* found = PyDict_GetItemWithError(dict, key);
    if (found == nullptr && PyErr_Occurred()) [[unlikely]]
        PyErr_Clear();
    return found;
}

PyObject* look_up_by_identity(PyObject* dict, PyObject* key) {
    PyObject *present, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &present, &value);)
        if (present == key) return value;
    return nullptr;
}

/// For a key that compares by identity. If another key with the same hash has a user-defined `__eq__`, it is not
/// called: the result is false.
bool has_no_identical_key(PyObject* dict, PyObject* key) {
    bool is_tensor = torch_room::is_plain_tensor(key);
    PyObject *present, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &present, &value);)
        if (present == key || !(is_tensor ? is_safe_beside_tensor(present, key) : is_safe_beside(present)))
            return false;
    return true;
}

bool has_safe_keys(PyObject* dict) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);)
        if (!is_safe_beside(key)) return false;
    return true;
}

bool is_member(PyObject* key, PyObject* expected, std::int64_t how) {
    return key == expected || (how != kByIdentity && same_constant(key, expected));
}

bool has_keys(PyObject* dict, PyObject* expected, std::int64_t how) {
    Py_ssize_t count = PyTuple_GET_SIZE(expected);
    if (PyDict_GET_SIZE(dict) != count || (count > 1 && PyODict_Check(dict))) return false;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!PyDict_Next(dict, &position, &key, &value) || !is_member(key, PyTuple_GET_ITEM(expected, i), how))
            return false;
    return true;
}

/// The order of an OrderedDict changes without a change of the dict version, and only its iterator knows it. The
/// iterator looks keys up, so it is used only if no key runs user code.
bool has_ordered_keys(PyObject* dict, PyObject* expected, std::int64_t how) {
    Py_ssize_t count = PyTuple_GET_SIZE(expected);
    if (!PyODict_Check(dict) || PyDict_GET_SIZE(dict) != count || !has_safe_keys(dict)) return false;
    CollectorPaused paused;
    Ref<> iterator = Ref<>::steal(PyODict_Type.tp_iter(dict));
    if (!iterator) return PyErr_Clear(), false;
    for (Py_ssize_t i = 0; i < count; ++i) {
        Ref<> key = Ref<>::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get()));
        if (!key) return PyErr_Clear(), false;
        if (!is_member(key.get(), PyTuple_GET_ITEM(expected, i), how)) return false;
    }
    return true;
}

/// -1 if the check raised.
int ask_subclass(PyObject* type, PyObject* of) {
    Ref<> held_type = Ref<>::share(type), held_of = Ref<>::share(of);
    int answer = PyObject_IsSubclass(type, of);
    if (answer < 0) PyErr_Clear();
    return answer;
}

bool has_elements(PyObject* set, PyObject* expected, std::int64_t how) {
    if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(expected)) return false;
    Py_ssize_t i = 0;
    for (SetEntries entries(set); entries.next(); ++i)
        if (!is_member(entries.key(), PyTuple_GET_ITEM(expected, i), how)) return false;
    return true;
}

Ref<> compute(PyObject* object, PyObject* descriptor) {
    if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor))) return nullptr;
    CollectorPaused paused;
    Ref<> found = Ref<>::steal(Py_TYPE(descriptor)->tp_descr_get(descriptor, object, nullptr));
    if (!found) PyErr_Clear();
    return found;
}

PyObject* instance_dict_made(PyObject* object) {
    if (PyObject* dict = cpython::instance_dict_if_made(object)) return dict;
    CollectorPaused paused;
    return cpython::instance_dict(object);
}

}  // namespace

GuardProgram::GuardProgram(std::span<const Guard> guards, std::span<Source* const> fetched,
                           std::span<Source* const> all_distinct, std::span<const Expression* const> symbols)
    : state_(std::make_unique<State>()) {
    state_->build(guards, fetched, all_distinct, symbols);
    count_alive(Alive::GuardPrograms, 1);
}

void GuardProgram::require(BackendCondition condition) {
    std::int32_t place = -1;
    for (Term& term : condition.terms) {
        if (term.op != Expression::Op::Source) continue;
        term = state_->symbols.at(term.symbol);
        place = term.place;
    }
    STATOR_CHECK(place >= 0, "a condition without a symbol");
    auto number = static_cast<std::int32_t>(state_->expressions.size());
    CheckedCondition checked{Condition(std::move(condition.terms)), nullptr};
    if (condition.function)
        checked.by_python = std::make_unique<PythonCondition>(
            PythonCondition{std::move(condition.function), std::move(condition.text), {}});
    state_->expressions.push_back(std::move(checked));
    auto fact = static_cast<std::int32_t>(state_->facts.size());
    state_->facts.push_back({.kind = GuardKind::Expression, .place = place, .number = number});
    STATOR_CHECK(state_->steps.back().op == StepOp::Done, "a program ends with Done");
    const Step step{.op = StepOp::Expression, .from = place, .number = number};
    state_->steps.insert(state_->steps.end() - 1, step);
    state_->fact_of_step.insert(state_->fact_of_step.end() - 1, fact);
}

GuardProgram::~GuardProgram() {
    if (state_ != nullptr) count_alive(Alive::GuardPrograms, -1);
}
GuardProgram::GuardProgram(GuardProgram&&) noexcept = default;
GuardProgram& GuardProgram::operator=(GuardProgram&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
}

inline void GuardProgram::State::drop_computed() {
    if (!computed.empty()) [[unlikely]] {
        ShortList<PyObject*, 16> dropped;
        for (Ref<>& object : computed)
            if (object) dropped.push_back(object.release());
        for (PyObject* object : dropped) Py_DECREF(object);
    }
    if (!held.empty()) [[unlikely]] {
        std::vector<Ref<>> dropped;
        dropped.swap(held);
    }
}

void GuardProgram::State::enter_changed(Step* first, Step* enter) {
    enter->object = nullptr;
    // The quick check has its own Enter and is about to fill the registers of the block, so they no longer match the
    // state that the program's Enter recorded.
    if (first != steps.data())
        if (const Step& leave = steps[enter->number]; leave.op == StepOp::LeaveDict || leave.op == StepOp::LeaveClass)
            steps[leave.number].object = nullptr;
    walked.push_back(static_cast<std::int32_t>(enter - first));
    if (enter->relied_on) quick.forget();
}

std::optional<Number> GuardProgram::State::read_number(const Term& term) const {
    PyObject* object = registers[term.place];
    if (term.dimension >= 0)
        return Number::of_int(torch_room::layout_number(object, static_cast<std::size_t>(term.dimension)));
    return object == nullptr ? std::nullopt : Number::of(object);
}

bool GuardProgram::State::holds(const CheckedCondition& condition) {
    if (condition.by_python) [[unlikely]]
        return holds_by_python(condition);
    if (!condition.is_of_ints) {
        auto read = [this](const Term& term) { return read_number(term); };
        return evaluate(condition.terms, read) == Number::of_int(1);
    }
    auto read_int = [this](const Term& term) -> std::optional<std::int64_t> {
        if (term.dimension >= 0)
            return torch_room::layout_number(registers[term.place], static_cast<std::size_t>(term.dimension));
        std::optional<Number> number = read_number(term);
        return number && !number->is_float() ? std::optional(number->integer()) : std::nullopt;
    };
    return evaluate_ints(condition.terms, read_int) == 1;
}

bool GuardProgram::State::holds_by_python(const CheckedCondition& condition) {
    PythonCondition& python = *condition.by_python;
    std::vector<Number> numbers;
    for (const Term& term : condition.terms) {
        std::optional<Number> number = read_number(term);
        if (!number) return false;
        numbers.push_back(*number);
    }
    if (numbers == python.asked) return python.holds;
    // The registers are not valid any more after this: the check is repeated, and finds the answer above.
    has_run_code = true;
    python.asked.clear();
    Ref<> arguments = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
    for (std::size_t i = 0; arguments && i < numbers.size(); ++i)
        PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), numbers[i].object().release());
    Ref<> function = python.function;
    Ref<> answer = arguments ? Ref<>::steal(PyObject_CallObject(function.get(), arguments.get())) : Ref<>();
    const int holds = answer ? PyObject_IsTrue(answer.get()) : -1;
    if (holds < 0) PyErr_Clear();
    python.holds = holds > 0;
    python.asked = std::move(numbers);
    return false;
}

bool GuardProgram::State::flattens_to(const Step& flattened) {
    // The first step of this kind holds what is read from here on: they are the last steps (`order.cpp`).
    if (held.empty()) {
        for (std::int32_t place : fetched_from) held.push_back(Ref<>::share(registers[place]));
        for (const Step* step = &flattened; step->op != StepOp::Done; ++step)
            if (step->from >= 0) held.push_back(Ref<>::share(registers[step->from]));
    }
    return torch_room::flattens_to(registers[flattened.from], flattened.object);
}

template <bool kCounting>
bool GuardProgram::State::execute(Step* const first, PyObject* const* slots, PyObject* function, std::size_t* count) {
    PyObject** const values = registers.data();
    for (Step* step = first;; ++step) {
        if constexpr (kCounting) ++*count;
        PyObject* const from = step->from < 0 ? nullptr : values[step->from];
        PyObject* found = nullptr;
        switch (step->op) {
            case StepOp::Slot:
                found = slots[step->number];
                break;
            case StepOp::Function:
                found = function;
                break;
            case StepOp::HandledException: {
                // The thread state holds a reference, so this one can be dropped.
                Ref<> handled = Ref<>::steal(PyErr_GetHandledException());
                found = handled ? handled.get() : Py_None;
                break;
            }
            case StepOp::Globals:
                if (!PyFunction_Check(from)) goto failed;
                found = cpython::globals_of(as_function(from));
                break;
            case StepOp::Builtins:
                if (!PyFunction_Check(from)) goto failed;
                found = cpython::builtins_of(as_function(from));
                break;
            case StepOp::ClosureCell:
                if (!PyFunction_Check(from)) goto failed;
                found = item_or_null(cpython::closure_of(as_function(from)), step->number);
                break;
            case StepOp::CellContents:
                if (!PyCell_Check(from)) goto failed;
                found = cpython::cell_contents(from);
                break;
            case StepOp::Default:
                if (!PyFunction_Check(from)) goto failed;
                found = item_or_null(cpython::defaults_of(as_function(from)), step->number);
                break;
            case StepOp::KeywordDefault: {
                if (!PyFunction_Check(from)) goto failed;
                PyObject* defaults = cpython::keyword_defaults_of(as_function(from));
                if (defaults != nullptr && PyDict_Check(defaults)) found = look_up(defaults, step->object);
                break;
            }
            case StepOp::TupleItem:
                if (!PyTuple_Check(from)) goto failed;
                if (step->number < PyTuple_GET_SIZE(from)) found = PyTuple_GET_ITEM(from, step->number);
                break;
            case StepOp::ListItem:
                if (!PyList_Check(from)) goto failed;
                if (step->number < PyList_GET_SIZE(from)) found = PyList_GET_ITEM(from, step->number);
                break;
            case StepOp::DequeItem:
                if (!cpython::is_deque(from)) goto failed;
                found = cpython::deque_item(from, step->number);
                break;
            case StepOp::StringItem:
                found = from != nullptr ? look_up(from, step->object)
                                        : cpython::instance_attribute(values[step->number], step->object).get();
                break;
            case StepOp::ConstantItem:
                found = look_up(from, step->object);
                break;
            case StepOp::IdentityItem:
                found = look_up_by_identity(from, step->object);
                break;
            case StepOp::InstanceDict:
                found = instance_dict_made(from);
                break;
            case StepOp::ModuleDict:
                if (!PyModule_Check(from)) goto failed;
                found = PyModule_GetDict(from);
                break;
            case StepOp::ClassAttribute:
                found = cpython::lookup_in_mro(reinterpret_cast<PyTypeObject*>(from), step->object);
                break;
            case StepOp::Member:
                if (!PyObject_TypeCheck(from, reinterpret_cast<PyTypeObject*>(step->object))) goto failed;
                found = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(from) + step->number);
                if (found == nullptr) found = step->extra;
                break;
            case StepOp::Computed:
                computed[step->number] = compute(from, step->object);
                found = computed[step->number].get();
                break;
            case StepOp::Entry:
                found = cpython::entry_of(from, step->number);
                break;
            case StepOp::WalkedOver:
                found = cpython::walked_over(from, step->number);
                break;
            case StepOp::Upcoming: {
                CollectorPaused paused;
                cpython::Ahead ahead =
                    cpython::look_ahead(from, static_cast<Py_ssize_t>(step->version), &computed[step->number]);
                if (ahead == cpython::Ahead::Unknown) goto failed;
                found = computed[step->number].get();
                break;
            }
            case StepOp::Size:
                computed[step->number] = Ref<>::steal(
                    PyLong_FromLongLong(torch_room::layout_number(from, static_cast<std::size_t>(step->version))));
                found = computed[step->number].get();
                if (found == nullptr) PyErr_Clear();
                break;
            case StepOp::ArrayTensor: {
                CollectorPaused paused;
                computed[step->number] = torch_room::tensor_of_array(from, step->version != 0);
                found = computed[step->number].get();
                break;
            }
            case StepOp::MethodSelf:
                if (PyMethod_Check(from))
                    found = PyMethod_GET_SELF(from);
                else if (PyCFunction_Check(from))
                    found = PyCFunction_GET_SELF(from);
                break;
            case StepOp::MethodFunction:
                found = PyMethod_Check(from) ? PyMethod_GET_FUNCTION(from) : cpython::c_method_descriptor(from).get();
                break;
            case StepOp::Referent:
                if (PyWeakref_Check(from)) found = cpython::referent_or_none(from).get();
                break;

            case StepOp::EnterInstanceDict:
            case StepOp::MakeInstanceDict: {
                PyObject* dict = step->op == StepOp::EnterInstanceDict ? cpython::instance_dict_if_made(from).get()
                                                                       : instance_dict_made(from);
                values[step->to] = dict;
                if (dict != nullptr && dict == step->object && cpython::dict_version(dict) == step->version)
                    [[likely]] {
                    step = first + step->number;
                    continue;
                }
                enter_changed(first, step);
                if (dict == nullptr && step->op == StepOp::MakeInstanceDict) goto failed;
                continue;
            }
            case StepOp::EnterDict:
                // The address may hold another object now.
                if (!PyDict_Check(from)) goto failed;
                if (from == step->object && cpython::dict_version(from) == step->version) [[likely]] {
                    step = first + step->number;
                    continue;
                }
                enter_changed(first, step);
                continue;
            case StepOp::LeaveDict:
                if (from != nullptr) {
                    Step& enter = first[step->number];
                    enter.version = cpython::dict_version(from);
                    enter.object = enter.version == 0 ? nullptr : from;
                }
                continue;
            case StepOp::EnterClass:
                if (!PyType_Check(from)) goto failed;
                if (from == step->object &&
                    cpython::type_version(reinterpret_cast<PyTypeObject*>(from)) == step->version) [[likely]] {
                    step = first + step->number;
                    continue;
                }
                enter_changed(first, step);
                continue;
            case StepOp::LeaveClass: {
                Step& enter = first[step->number];
                enter.version = cpython::type_version(reinterpret_cast<PyTypeObject*>(from));
                enter.object = enter.version == 0 ? nullptr : from;
                continue;
            }
            case StepOp::SafeKeys:
                if (!has_safe_keys(from)) goto failed;
                continue;

            case StepOp::Type:
                if (Py_TYPE(from) != reinterpret_cast<PyTypeObject*>(step->object)) goto failed;
                continue;
            case StepOp::Identity:
                if (from != step->object) goto failed;
                continue;
            case StepOp::Constant:
                if (from != step->object && !same_constant(from, step->object) && !same_contents(from, step->object))
                    goto failed;
                continue;
            case StepOp::FunctionCode: {
                if (!PyFunction_Check(from)) goto failed;
                auto* code = reinterpret_cast<PyObject*>(cpython::code_of(as_function(from)));
                if (code != step->object || cpython::globals_of(as_function(from)) != step->extra) goto failed;
                continue;
            }
            case StepOp::TupleLength:
                if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) != step->number) goto failed;
                continue;
            case StepOp::ListLength:
                if (!PyList_Check(from) || PyList_GET_SIZE(from) != step->number) goto failed;
                continue;
            case StepOp::DictLength:
                if (PyDict_GET_SIZE(from) != step->number) goto failed;
                continue;
            case StepOp::SetLength:
                if (!PyAnySet_Check(from) || PySet_GET_SIZE(from) != step->number) goto failed;
                continue;
            case StepOp::DequeLength:
                if (!cpython::is_deque(from) || cpython::deque_length(from) != step->number) goto failed;
                continue;
            case StepOp::NoStringKey:
                if (from != nullptr ? look_up(from, step->object) != nullptr
                                    : cpython::instance_attribute(values[step->number], step->object) != nullptr)
                    goto failed;
                continue;
            case StepOp::NoConstantKey:
                if (look_up(from, step->object) != nullptr) goto failed;
                continue;
            case StepOp::NoIdentityKey:
                if (!has_no_identical_key(from, step->object)) goto failed;
                continue;
            case StepOp::Keys:
                if (!has_keys(from, step->object, step->number)) goto failed;
                continue;
            case StepOp::OrderedKeys:
                if (!has_ordered_keys(from, step->object, step->number)) goto failed;
                continue;
            case StepOp::Elements:
                if (!has_elements(from, step->object, step->number)) goto failed;
                continue;
            case StepOp::Tensor:
                if (!torch_room::matches(from, tensors[step->number])) goto failed;
                continue;
            case StepOp::Autograd:
                if (pack(torch_room::read_autograd_state(from)) != step->number) goto failed;
                continue;
            case StepOp::Offset:
                if (static_cast<std::uint64_t>(torch_room::storage_offset(from)) != step->version) goto failed;
                continue;
            case StepOp::Flattened:
                if (!flattens_to(*step)) goto failed;
                continue;
            case StepOp::Subclass: {
                // The result of an abstract base class does not change until a class is registered.
                std::uint64_t token = cpython::abstract_class_token();
                if (step->version == token) [[likely]]
                    continue;
                if (ask_subclass(from, step->object) != step->number) goto failed;
                step->version = token;
                has_run_code = true;
                failed = kInterrupted;
                return false;
            }
            case StepOp::Same:
                if (from != values[step->number]) goto failed;
                continue;
            case StepOp::Different:
                if (from == values[step->number]) goto failed;
                continue;
            case StepOp::Expression:
                if (!holds(expressions[step->number])) goto failed;
                continue;
            case StepOp::AllDistinct:
                if (!distinct->check(values)) goto failed;
                continue;
            case StepOp::Done:
                return true;
        }
        if ((found == nullptr) == step->absent) [[likely]] {
            values[step->to] = found;
            continue;
        }
    failed:
        failed = static_cast<std::int32_t>(step - first);
        return false;
    }
}

bool GuardProgram::State::execute_steps(Step* first, PyObject* const* slots, PyObject* function) {
    return execute<false>(first, slots, function, nullptr);
}

template <bool kCounting>
bool GuardProgram::State::check_all(PyObject* const* slots, PyObject* function, std::size_t* count) {
    // Code that a check runs may invalidate the check, so it is repeated, but not endlessly.
    for (int repeated = 0;; ++repeated) {
        walked.clear();
        if (execute<kCounting>(steps.data(), slots, function, count)) break;
        if (!std::exchange(has_run_code, false) || repeated == 8) return false;
        drop_computed();
    }
    for (std::size_t i = 0; i < fetched_from.size(); ++i) fetched[i] = registers[fetched_from[i]];
    failed = kNone;
    quick_policy.succeeded(*this);
    return true;
}

bool GuardProgram::State::check(PyObject* const* slots, PyObject* function) {
    // This check runs in the middle of another one, which owns the registers, computed objects and blocks.
    if (running > 0) [[unlikely]] {
        failed = kInterrupted;
        return false;
    }
    InUse in_use(running);
    // Freeing an object can run any code, so it is done before the first register is filled.
    drop_computed();
    if (quick.is_there() && quick.check(*this, slots, function)) {
        failed = kNone;
        return true;
    }
    has_run_code = false;
    return check_all<false>(slots, function, nullptr);
}

bool GuardProgram::check(PyObject* const* slots, PyObject* function) {
    return state_->check(slots, function);
}

std::size_t GuardProgram::count_steps(PyObject* const* slots, PyObject* function) {
    std::size_t count = 0;
    state_->drop_computed();
    State::InUse in_use(state_->running);
    state_->check_all<true>(slots, function, &count);
    return count;
}

std::span<PyObject* const> GuardProgram::fetched() const {
    STATOR_DCHECK(state_->failed < 0, "the last check failed, so nothing was fetched");
    return state_->fetched;
}

void GuardProgram::release() {
    if (state_->running == 0) state_->drop_computed();
}

std::string GuardProgram::explain(PyObject* const* slots, PyObject* function) {
    return check(slots, function) ? "" : state_->explain_failure() + state_->closure_variable_of_failure();
}

std::vector<std::string> GuardProgram::State::changed_numbers(PyObject* const* slots, PyObject* function) {
    std::vector<std::string> places;
    if (running > 0) return places;
    InUse in_use(running);
    drop_computed();
    // Changed numbers are accepted during this run, to find other changed ones.
    std::vector<std::pair<std::int32_t, PyObject*>> put_up_with;
    std::vector<std::pair<std::int32_t, torch_room::TensorCheck>> other_sizes;
    std::vector<std::pair<std::int32_t, std::uint64_t>> other_offsets;
    std::vector<Ref<>> held;
    while (!execute<false>(steps.data(), slots, function, nullptr)) {
        has_run_code = false;
        if (failed == kInterrupted) break;
        Step& step = steps[failed];
        PyObject* object = step.from < 0 ? nullptr : registers[step.from];
        if (step.op == StepOp::Tensor) {
            torch_room::TensorCheck& check = tensors[step.number];
            // An argument that is a tensor and a number in turn: it is no constant either.
            if (PyLong_CheckExact(object)) places.push_back(print_place(step.from));
            if (!torch_room::is_tensor(object)) break;
            std::vector<std::size_t> changed = torch_room::changed_layout(object, check);
            if (changed.empty()) break;
            for (std::size_t number : changed)
                places.push_back(print_place(step.from) + torch_room::print_layout_number(number));
            other_sizes.emplace_back(step.number, std::exchange(check, torch_room::make_check(object)));
            continue;
        }
        if (step.op == StepOp::Offset) {
            places.push_back(print_place(step.from) + torch_room::print_layout_number(torch_room::kStorageOffset));
            other_offsets.emplace_back(failed, step.version);
            step.version = static_cast<std::uint64_t>(torch_room::storage_offset(object));
            continue;
        }
        if (step.op != StepOp::Constant || !Py_IS_TYPE(object, Py_TYPE(step.object))) break;
        if (!PyLong_CheckExact(object) && !PyFloat_CheckExact(object) && !is_numpy_number(object)) break;
        places.push_back(print_place(step.from));
        put_up_with.emplace_back(failed, step.object);
        held.push_back(Ref<>::share(object));
        step.object = object;
    }
    for (auto [index, expected] : put_up_with) steps[index].object = expected;
    for (auto& [index, check] : other_sizes) tensors[index] = std::move(check);
    for (auto [index, offset] : other_offsets) steps[index].version = offset;
    // Blocks have succeeded that would not have: nothing that they remember holds.
    quick.forget();
    for (Step& step : steps)
        if (step.op >= StepOp::EnterDict && step.op <= StepOp::EnterClass && step.op != StepOp::LeaveDict)
            step.object = nullptr;
    return places;
}

std::vector<std::string> GuardProgram::changed_numbers(PyObject* const* slots, PyObject* function) {
    std::vector<std::string> places = state_->changed_numbers(slots, function);
    // What was computed may hold the last reference to an object of the program.
    release();
    return places;
}

std::size_t GuardProgram::size() const {
    return state_->facts.size();
}

std::vector<std::string> GuardProgram::print() const {
    std::vector<std::string> lines;
    for (const Fact& fact : state_->facts) lines.push_back(state_->print_fact(fact));
    return lines;
}

std::vector<std::string> GuardProgram::print_steps() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < state_->steps.size(); ++i) lines.push_back(state_->print_step(i));
    return lines;
}

std::vector<std::string> GuardProgram::print_quick() const {
    return state_->quick.print(*state_);
}

std::size_t GuardProgram::quick_hits() const {
    return state_->quick.hits();
}

std::size_t GuardProgram::watched_hits() const {
    return state_->quick.watched_hits();
}

void GuardProgram::visit(const std::function<void(PyObject*)>& visitor) const {
    for (const Ref<>& object : state_->kept) visitor(object.get());
    for (const Ref<>& object : state_->computed)
        if (object) visitor(object.get());
}

}  // namespace stator
