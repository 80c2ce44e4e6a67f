#include "run/step.h"

#include <algorithm>
#include <span>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/short_list.h"
#include "cpython/binary_operations.h"
#include "cpython/code_object.h"
#include "cpython/coroutines.h"
#include "cpython/exception_groups.h"
#include "cpython/hook.h"
#include "cpython/objects.h"
#include "cpython/opcodes.h"
#include "run/patterns.h"
#include "run/skipped_code.h"

namespace stator {

using bytecode::Code;
using bytecode::Index;
using bytecode::Instruction;
using bytecode::Op;

namespace {

PyObject* builtin_next() {
    static PyObject* function = imported("builtins", "next");
    return function;
}

/// Whether `except` accepts the pattern without an error.
bool is_exception_pattern(PyObject* pattern) {
    if (!PyTuple_Check(pattern)) return PyExceptionClass_Check(pattern);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pattern); ++i)
        if (!PyExceptionClass_Check(PyTuple_GET_ITEM(pattern, i))) return false;
    return true;
}

Ref<> boolean(int truth) {
    checked(truth);
    return Ref<>::share(truth != 0 ? Py_True : Py_False);
}

/// One instruction that is being executed. Exceptions of the program are returned where they are part of its ordinary
/// course: throwing a C++ exception takes longer than many a call.
class Step {
  public:
    Step(cpython::Frame* frame, const Code& code, Index at, Sender send, void* context)
        : frame_(frame), code_(code), at_(at), instruction_(code[at]), send_(send), context_(context) {}

    Stepped run();

  private:
    PyObject* top(std::size_t depth = 0) const {
        auto values = cpython::stack(frame_);
        return values[values.size() - 1 - depth];
    }
    PyObject* name() const { return code_.name(instruction_.arg); }

    /// Pops the operands, pushes the result and continues as after a call; without a result it has raised.
    Stepped finish(int operands, Ref<> result) {
        if (!result) return raised();
        cpython::drop(frame_, operands);
        return complete(frame_, code_, at_, {std::move(result)});
    }
    /// The same for an instruction that pushes nothing; a negative status means that it has raised.
    Stepped finish(int operands, int status) {
        if (status < 0) return raised();
        return finish(operands, Ref<>::share(Py_None));
    }
    Stepped raised() const { return {Stepped::Kind::Raised, at_}; }
    /// The instruction can't be executed here; it has had no effect yet.
    Stepped leave() const { return {Stepped::Kind::Leave, at_}; }
    Stepped next() const { return {Stepped::Kind::Next, at_.next()}; }
    Stepped go_to(Index target) const { return {Stepped::Kind::Next, target}; }
    Stepped jump_if(bool jumps) const { return go_to(jumps ? instruction_.target : at_.next()); }

    Stepped call(std::size_t count, PyObject* names, int operands);
    Stepped call_spread();
    Stepped load_super_attribute();
    Stepped for_iter();
    Stepped send();
    Stepped unpack_sequence();
    Stepped unpack_starred();
    void push_unpacked(std::vector<Ref<>>& items);
    Stepped build_set();
    Stepped build_map();
    Stepped build_map_of_constant_keys();
    Stepped merge_named_arguments();
    Stepped format_value();
    Stepped split_group();
    Stepped before_with(const char* entering, const char* leaving);
    Stepped replace_top(Ref<> iterator);
    Stepped get_next_awaitable();
    Stepped import_name();
    Stepped raise();
    Stepped raise_again();
    Stepped slice_access();
    Stepped load_global();
    PyObject* cell() const { return cpython::slots(frame_)[instruction_.arg]; }

    cpython::Frame* frame_;
    const Code& code_;
    Index at_;
    const Instruction& instruction_;
    Sender send_;
    void* context_;
};

/// The arguments of a call on the stack of the caller's frame.
struct HandedOver {
    PyObject** arguments;
    std::size_t count;
};

/// The frame owns its arguments now, so the caller drops its references: the function may free them.
PyObject* run_with_arguments(PyThreadState* thread, cpython::Frame* frame, void* context) {
    auto* handed_over = static_cast<HandedOver*>(context);
    for (std::size_t i = 0; i < handed_over->count; ++i) Py_CLEAR(handed_over->arguments[i]);
    return cpython::run_untouched(thread, frame);
}

/// Whether a variable of the frame holds each of the arguments, so that none of them dies before it is bound.
bool are_held_by_variables(cpython::Frame* frame, std::span<PyObject* const> arguments) {
    const std::span<PyObject* const> variables(cpython::slots(frame),
                                               static_cast<std::size_t>(cpython::slot_count(frame)));
    return std::ranges::all_of(arguments, [&](PyObject* argument) {
        return argument == Py_None || std::ranges::find(variables, argument) != variables.end();
    });
}

/// Calls an object with arguments from the stack of a frame; null if it has raised. A Python function takes over the
/// references, unless another hook evaluates its frame.
Ref<> call_with_arguments(cpython::Frame* frame, PyObject* callable, PyObject** arguments, std::size_t count,
                          std::size_t positional, PyObject* names) {
    if (!Py_IS_TYPE(callable, &PyFunction_Type) || count == 0)
        return Ref<>::steal(PyObject_Vectorcall(callable, arguments, positional, names));
    if (are_held_by_variables(frame, {arguments, count})) {
        const ShortList<PyObject*, 8> given{std::span<PyObject* const>(arguments, count)};
        for (std::size_t i = 0; i < count; ++i) Py_CLEAR(arguments[i]);
        return Ref<>::steal(PyObject_Vectorcall(callable, given.begin(), positional, names));
    }
    if (cpython::is_hook_waiting()) return Ref<>::steal(PyObject_Vectorcall(callable, arguments, positional, names));
    HandedOver handed_over{arguments, count};
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable));
    return Ref<>::steal(
        cpython::call_with_hook(code, run_with_arguments, &handed_over, callable, arguments, positional, names));
}

Stepped Step::call(std::size_t count, PyObject* names, int operands) {
    auto values = cpython::stack(frame_);
    PyObject** base = values.data() + values.size() - static_cast<std::size_t>(operands);
    PyObject** arguments = base + 2;
    PyObject *callable = nullptr, *self = nullptr;
    if (cpython::kDialect.null_above_callable) {
        callable = base[0];
        self = base[1];
    } else if (base[0] == nullptr) {
        callable = base[1];
    } else {
        callable = base[0];
        self = base[1];
    }
    if (self != nullptr) {
        --arguments;
        ++count;
    }
    std::size_t positional = count - (names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names)));
    if (leaves_frame_uncompiled(callable)) return leave();
    // `next(generator)` is the only C call that resumes Python code which can be captured.
    if (callable == builtin_next() && positional == 1 && names == nullptr && PyGen_CheckExact(arguments[0])) {
        PyObject* result = nullptr;
        switch (send_(context_, arguments[0], Py_None, &result)) {
            case PYGEN_NEXT:
                return finish(operands, Ref<>::steal(result));
            case PYGEN_RETURN:
                cpython::drop(frame_, operands);
                return complete(frame_, code_, at_, {Ref<>::steal(result), true});
            case PYGEN_ERROR:
                return raised();
        }
    }
    return finish(operands, call_with_arguments(frame_, callable, arguments, count, positional, names));
}

Stepped Step::call_spread() {
    bool has_named = instruction_.arg == 1;
    PyObject* named = has_named ? top(0) : nullptr;
    PyObject* positional = top(has_named ? 1 : 0);
    int operands = has_named ? 4 : 3;
    PyObject *lower = top(static_cast<std::size_t>(operands) - 1), *upper = top(static_cast<std::size_t>(operands) - 2);
    PyObject* callable = lower == nullptr ? upper : lower;
    // Other objects than tuples and dicts may raise errors whose message names the function.
    if (named != nullptr && !PyDict_CheckExact(named)) return leave();
    Ref<> arguments = Ref<>::share(positional);
    if (!PyTuple_CheckExact(positional)) {
        if (!PyList_CheckExact(positional)) return leave();
        arguments = checked(PyList_AsTuple(positional));
    }
    return finish(operands, Ref<>::steal(PyObject_Call(callable, arguments.get(), named)));
}

Stepped Step::load_super_attribute() {
    PyObject* parts[] = {top(1), top(0)};
    std::size_t count = (instruction_.extra & 2) != 0 ? 2 : 0;
    Ref<> proxy = checked(PyObject_Vectorcall(top(2), parts, count, nullptr));
    return finish(3, checked(PyObject_GetAttr(proxy.get(), name())));
}

Stepped Step::for_iter() {
    PyObject* iterator = top();
    if (PyGen_CheckExact(iterator)) {
        PyObject* result = nullptr;
        switch (send_(context_, iterator, Py_None, &result)) {
            case PYGEN_NEXT:
                return finish(0, Ref<>::steal(result));
            case PYGEN_RETURN:
                return complete(frame_, code_, at_, {Ref<>::steal(result), true});
            case PYGEN_ERROR:
                return raised();
        }
    }
    PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator);
    if (item == nullptr && PyErr_Occurred() != nullptr) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return raised();
        PyErr_Clear();
    }
    return complete(frame_, code_, at_, {Ref<>::steal(item)});
}

Stepped Step::send() {
    PyObject *receiver = top(1), *value = top(0);
    PyObject* result = nullptr;
    PySendResult how = cpython::is_resumable(receiver) ? send_(context_, receiver, value, &result)
                                                       : PyIter_Send(receiver, value, &result);
    if (how == PYGEN_ERROR) return raised();
    cpython::drop(frame_, 1);
    return complete(frame_, code_, at_, {Ref<>::steal(result), how == PYGEN_RETURN});
}

// --- containers

void Step::push_unpacked(std::vector<Ref<>>& items) {
    cpython::drop(frame_, 1);
    for (auto item = items.rbegin(); item != items.rend(); ++item) cpython::push(frame_, std::move(*item));
}

namespace {

Ref<> iterator_to_unpack(PyObject* value) {
    Ref<> iterator = Ref<>::steal(PyObject_GetIter(value));
    if (iterator) return iterator;
    if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(value)->tp_iter == nullptr && !PySequence_Check(value))
        PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(value)->tp_name);
    throw PythonError();
}

/// The next item, or empty at the end.
Ref<> next_of(PyObject* iterator) {
    Ref<> item = Ref<>::steal(PyIter_Next(iterator));
    if (!item && PyErr_Occurred() != nullptr) throw PythonError();
    return item;
}

}  // namespace

Stepped Step::unpack_sequence() {
    Ref<> iterator = iterator_to_unpack(top());
    std::vector<Ref<>> items;
    for (int i = 0; i < instruction_.arg; ++i) {
        Ref<> item = next_of(iterator.get());
        if (!item) {
            PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", instruction_.arg, i);
            throw PythonError();
        }
        items.push_back(std::move(item));
    }
    if (next_of(iterator.get())) {
        PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", instruction_.arg);
        throw PythonError();
    }
    push_unpacked(items);
    return next();
}

Stepped Step::unpack_starred() {
    int before = instruction_.arg, after = instruction_.extra;
    Ref<> iterator = iterator_to_unpack(top());
    std::vector<Ref<>> items;
    for (int i = 0; i < before; ++i) {
        Ref<> item = next_of(iterator.get());
        if (!item) {
            PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after,
                         i);
            throw PythonError();
        }
        items.push_back(std::move(item));
    }
    Ref<> rest = checked(PySequence_List(iterator.get()));
    Py_ssize_t size = PyList_GET_SIZE(rest.get());
    if (size < after) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                     before + size);
        throw PythonError();
    }
    Ref<> starred = checked(PyList_GetSlice(rest.get(), 0, size - after));
    items.push_back(std::move(starred));
    for (Py_ssize_t i = size - after; i < size; ++i) items.push_back(Ref<>::share(PyList_GET_ITEM(rest.get(), i)));
    push_unpacked(items);
    return next();
}

Stepped Step::build_set() {
    Ref<> set = checked(PySet_New(nullptr));
    for (int i = instruction_.arg; i-- > 0;) checked(PySet_Add(set.get(), top(static_cast<std::size_t>(i))));
    return finish(instruction_.arg, std::move(set));
}

Stepped Step::build_map() {
    Ref<> dict = checked(PyDict_New());
    for (int i = instruction_.arg; i-- > 0;) {
        auto depth = static_cast<std::size_t>(i) * 2;
        checked(PyDict_SetItem(dict.get(), top(depth + 1), top(depth)));
    }
    return finish(instruction_.arg * 2, std::move(dict));
}

Stepped Step::build_map_of_constant_keys() {
    Ref<> dict = checked(PyDict_New());
    for (int i = 0; i < instruction_.arg; ++i)
        checked(PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(top(), i),
                               top(static_cast<std::size_t>(instruction_.arg - i))));
    return finish(instruction_.arg + 1, std::move(dict));
}

/// `**mapping` in a call, after other keywords.
Stepped Step::merge_named_arguments() {
    auto* into = top(static_cast<std::size_t>(instruction_.arg));
    PyObject* mapping = top();
    // A duplicate key, or an object that is not a mapping, raises an error whose message names the function.
    if (!PyDict_CheckExact(mapping)) return leave();
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(mapping, &position, &key, &value) != 0;)
        if (!PyUnicode_CheckExact(key) || PyDict_Contains(into, key) != 0) return leave();
    return finish(1, PyDict_Update(into, mapping));
}

Stepped Step::format_value() {
    bool has_specification = instruction_.extra == 1;
    Ref<> value = Ref<>::share(top(has_specification ? 1 : 0));
    switch (instruction_.arg) {
        case 1:
            value = checked(PyObject_Str(value.get()));
            break;
        case 2:
            value = checked(PyObject_Repr(value.get()));
            break;
        case 3:
            value = checked(PyObject_ASCII(value.get()));
            break;
        default:
            break;
    }
    if (instruction_.op == Op::FormatValue && !(PyUnicode_CheckExact(value.get()) && !has_specification))
        value = checked(PyObject_Format(value.get(), has_specification ? top() : nullptr));
    return finish(has_specification ? 2 : 1, std::move(value));
}

// --- with, import, raise

/// `iterator` is empty if CPython has to raise the error.
Stepped Step::replace_top(Ref<> iterator) {
    if (!iterator) return leave();
    return finish(1, std::move(iterator));
}

Stepped Step::get_next_awaitable() {
    Ref<> awaitable = cpython::awaited_next(top());
    if (!awaitable) return leave();
    return finish(0, std::move(awaitable));
}

Stepped Step::before_with(const char* entering, const char* leaving) {
    PyObject* manager = top();
    auto found = [manager](const char* name) {
        return Ref<>::share(cpython::lookup_in_mro(Py_TYPE(manager), interned(name)));
    };
    auto bound = [manager](Ref<> method) {
        descrgetfunc bind = Py_TYPE(method.get())->tp_descr_get;
        if (bind == nullptr) return method;
        return checked(bind(method.get(), manager, reinterpret_cast<PyObject*>(Py_TYPE(manager))));
    };
    Ref<> enter = found(entering), exit = found(leaving);
    if (!enter || !exit) return leave();  // CPython raises the error
    enter = bound(std::move(enter));
    exit = bound(std::move(exit));
    Ref<> entered = checked(PyObject_CallNoArgs(enter.get()));
    cpython::drop(frame_, 1);
    cpython::push(frame_, std::move(exit));
    cpython::push(frame_, std::move(entered));
    return next();
}

Stepped Step::import_name() {
    PyObject* builtins = cpython::builtins_of(frame_);
    PyObject* function = PyDict_GetItemWithError(builtins, interned("__import__"));
    if (function == nullptr) return leave();
    Ref<> module = checked(PyObject_CallFunctionObjArgs(function, name(), cpython::globals_of(frame_).get(), Py_None,
                                                        top(0), top(1), nullptr));
    return finish(2, std::move(module));
}

namespace {

/// The exception instance to raise; a class is instantiated.
Ref<> exception_of(PyObject* given, const char* complaint) {
    if (PyExceptionInstance_Check(given)) return Ref<>::share(given);
    if (!PyExceptionClass_Check(given)) {
        PyErr_SetString(PyExc_TypeError, complaint);
        throw PythonError();
    }
    Ref<> made = checked(PyObject_CallNoArgs(given));
    if (!PyExceptionInstance_Check(made.get())) {
        PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", given,
                     Py_TYPE(made.get()));
        throw PythonError();
    }
    return made;
}

Stepped raised_again(Ref<> exception) {
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception.get()))), Py_NewRef(exception.get()),
                  PyException_GetTraceback(exception.get()));
    return {Stepped::Kind::Raised, bytecode::kNoIndex, true};
}

}  // namespace

Stepped Step::split_group() {
    if (!patterns::is_group_pattern(top())) return leave();  // CPython raises the error
    patterns::Parts parts = patterns::split_group(top(1), top());
    cpython::drop(frame_, 2);
    PyObject* matching = parts.matching.get();
    cpython::push(frame_, std::move(parts.rest));
    cpython::push(frame_, std::move(parts.matching));
    if (matching != Py_None) PyErr_SetHandledException(matching);
    return next();
}

Stepped Step::raise() {
    if (instruction_.arg == 0) {
        Ref<> handled = Ref<>::steal(PyErr_GetHandledException());
        if (!handled || handled.get() == Py_None) {
            PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
            return raised();
        }
        return raised_again(std::move(handled));
    }
    bool has_cause = instruction_.arg == 2;
    Ref<> exception = exception_of(top(has_cause ? 1 : 0), "exceptions must derive from BaseException");
    if (has_cause) {
        Ref<> cause =
            top() == Py_None ? Ref<>() : exception_of(top(), "exception causes must derive from BaseException");
        PyException_SetCause(exception.get(), cause.release());
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
    return raised();
}

Stepped Step::raise_again() {
    return raised_again(Ref<>::share(top()));
}

Stepped Step::slice_access() {
    Ref<> slice = checked(PySlice_New(top(1), top(0), nullptr));
    if (instruction_.op == Op::BinarySlice) return finish(3, Ref<>::steal(PyObject_GetItem(top(2), slice.get())));
    return finish(4, PyObject_SetItem(top(2), slice.get(), top(3)));
}

Stepped Step::load_global() {
    PyObject* found = PyDict_GetItemWithError(cpython::globals_of(frame_), name());
    if (found == nullptr && PyErr_Occurred() == nullptr && PyDict_CheckExact(cpython::builtins_of(frame_).get()))
        found = PyDict_GetItemWithError(cpython::builtins_of(frame_), name());
    if (PyErr_Occurred() != nullptr) return raised();
    if (found == nullptr) return leave();
    return finish(0, Ref<>::share(found));
}

Stepped Step::run() {
    const int arg = instruction_.arg;
    auto at_depth = [&](int operands) { return top(static_cast<std::size_t>(arg + operands) - 1); };
    switch (instruction_.op) {
        case Op::Nop:
        case Op::Resume:
            return next();
        case Op::PopTop:
            return finish(1, Ref<>::share(Py_None));
        case Op::Jump:
        case Op::JumpBackward:
            return go_to(instruction_.target);

        case Op::Call:
            return call(static_cast<std::size_t>(arg),
                        instruction_.extra >= 0 ? code_.constant(instruction_.extra).get() : nullptr, arg + 2);
        case Op::CallKw: {
            Ref<> names = Ref<>::share(top());
            // The names stand above the arguments.
            cpython::drop(frame_, 1);
            return call(static_cast<std::size_t>(arg), names.get(), arg + 2);
        }
        case Op::CallFunctionEx:
            return call_spread();

        case Op::LoadAttr:
        case Op::LoadMethod:
            return finish(1, Ref<>::steal(PyObject_GetAttr(top(), name())));
        case Op::LoadSuperAttr:
            return load_super_attribute();
        case Op::StoreAttr:
            return finish(2, PyObject_SetAttr(top(), name(), top(1)));
        case Op::DeleteAttr:
            return finish(1, PyObject_SetAttr(top(), name(), nullptr));
        case Op::BinarySubscr:
            return finish(2, Ref<>::steal(PyObject_GetItem(top(1), top())));
        case Op::StoreSubscr:
            return finish(3, PyObject_SetItem(top(1), top(), top(2)));
        case Op::DeleteSubscr:
            return finish(2, PyObject_DelItem(top(1), top()));
        case Op::BinarySlice:
        case Op::StoreSlice:
            return slice_access();

        case Op::UnaryPositive:
            return finish(1, Ref<>::steal(PyNumber_Positive(top())));
        case Op::UnaryNegative:
            return finish(1, Ref<>::steal(PyNumber_Negative(top())));
        case Op::UnaryInvert:
            return finish(1, Ref<>::steal(PyNumber_Invert(top())));
        case Op::UnaryNot:
            return finish(1, boolean(PyObject_Not(top())));
        case Op::ToBool:
            return finish(1, boolean(PyObject_IsTrue(top())));
        case Op::BinaryOp:
            return finish(2, Ref<>::steal(cpython::binary_operation(static_cast<std::size_t>(arg), top(1), top())));
        case Op::CompareOp:
            return finish(2, Ref<>::steal(PyObject_RichCompare(top(1), top(), arg)));
        case Op::ContainsOp: {
            int contained = checked(PySequence_Contains(top(), top(1)));
            return finish(2, boolean(arg == 1 ? contained == 0 : contained));
        }
        case Op::IsOp:
            return finish(2, boolean((top(1) == top()) != (arg == 1)));

        case Op::BuildSet:
            return build_set();
        case Op::BuildMap:
            return build_map();
        case Op::BuildConstKeyMap:
            return build_map_of_constant_keys();
        case Op::ListAppend:
            return finish(1, PyList_Append(at_depth(1), top()));
        case Op::SetAdd:
            return finish(1, PySet_Add(at_depth(1), top()));
        case Op::MapAdd:
            return finish(2, PyDict_SetItem(at_depth(2), top(1), top()));
        case Op::ListExtend: {
            PyObject* iterable = top();
            if (Py_TYPE(iterable)->tp_iter == nullptr && !PySequence_Check(iterable)) return leave();
            return finish(1, Ref<>::steal(PyObject_CallMethodOneArg(at_depth(1), interned("extend"), iterable)));
        }
        case Op::SetUpdate:
            return finish(1, Ref<>::steal(PyObject_CallMethodOneArg(at_depth(1), interned("update"), top())));
        case Op::DictUpdate:
            if (!PyDict_Check(top()) && PyObject_HasAttrString(top(), "keys") == 0) return leave();
            return finish(1, PyDict_Update(at_depth(1), top()));
        case Op::DictMerge:
            return merge_named_arguments();
        case Op::UnpackSequence:
            return unpack_sequence();
        case Op::UnpackEx:
            return unpack_starred();
        case Op::FormatValue:
        case Op::ConvertValue:
            return format_value();

        case Op::PopJumpIfTrue: {
            bool truth = checked(PyObject_IsTrue(top())) != 0;
            cpython::drop(frame_, 1);
            return jump_if(truth);
        }
        case Op::PopJumpIfFalse: {
            bool truth = checked(PyObject_IsTrue(top())) != 0;
            cpython::drop(frame_, 1);
            return jump_if(!truth);
        }
        case Op::JumpIfTrueOrPop: {
            bool truth = checked(PyObject_IsTrue(top())) != 0;
            if (!truth) cpython::drop(frame_, 1);
            return jump_if(truth);
        }
        case Op::JumpIfFalseOrPop: {
            bool truth = checked(PyObject_IsTrue(top())) != 0;
            if (truth) cpython::drop(frame_, 1);
            return jump_if(!truth);
        }
        case Op::GetIter:
            return finish(1, Ref<>::steal(PyObject_GetIter(top())));
        case Op::GetYieldFromIter:
            if (PyGen_CheckExact(top())) return next();
            if (PyCoro_CheckExact(top())) return leave();
            return finish(1, Ref<>::steal(PyObject_GetIter(top())));
        case Op::ForIter:
            return for_iter();
        case Op::Send:
            return send();

        case Op::BeforeWith:
            return before_with("__enter__", "__exit__");
        case Op::BeforeAsyncWith:
            return before_with("__aenter__", "__aexit__");
        case Op::GetAwaitable:
            return replace_top(cpython::awaited(top()));
        case Op::GetAiter:
            return replace_top(cpython::asynchronous_iterator(top()));
        case Op::GetAnext:
            return get_next_awaitable();
        case Op::WithExceptStart: {
            PyObject* exception = top();
            Ref<> traceback = Ref<>::steal(PyException_GetTraceback(exception));
            PyObject* arguments[] = {reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception,
                                     traceback ? traceback.get() : Py_None};
            return finish(0, Ref<>::steal(PyObject_Vectorcall(top(3), arguments, 3, nullptr)));
        }
        case Op::CheckExcMatch:
            if (!is_exception_pattern(top())) return leave();
            return finish(1, boolean(PyErr_GivenExceptionMatches(top(1), top())));
        case Op::CheckEgMatch:
            return split_group();
        case Op::PrepReraiseStar:
            return finish(2, cpython::exception_to_raise_again(top(1), top()));
        case Op::MatchKeys:
            return finish(0, patterns::match_keys(top(1), top()));
        case Op::MatchClass:
            return finish(3, patterns::match_class(top(2), top(1), arg, top()));
        case Op::ImportName:
            return import_name();
        case Op::RaiseVarargs:
            return raise();
        case Op::Reraise:
            return raise_again();

        case Op::LoadGlobal:
            return load_global();
        case Op::StoreGlobal:
            return finish(1, PyDict_SetItem(cpython::globals_of(frame_), name(), top()));
        case Op::StoreDeref:
            return finish(1, PyCell_Set(cell(), top()));
        case Op::LoadBuildClass: {
            PyObject* found = PyDict_GetItemWithError(cpython::builtins_of(frame_), interned("__build_class__"));
            if (found == nullptr) return leave();
            return finish(0, Ref<>::share(found));
        }
        case Op::GetLen: {
            Py_ssize_t length = PyObject_Length(top());
            if (length < 0) return raised();
            return finish(0, Ref<>::steal(PyLong_FromSsize_t(length)));
        }
        default:
            return leave();
    }
}

}  // namespace

Stepped step(cpython::Frame* frame, const Code& code, Index at, Sender send, void* context) {
    try {
        return Step(frame, code, at, send, context).run();
    } catch (const PythonError&) {
        return {Stepped::Kind::Raised, at};
    }
}

}  // namespace stator
