/// Jumps, loops, calls, functions, imports.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/opcodes.h"
#include "trace/handlers/handlers.h"
#include "value/kinds/class.h"
#include "value/kinds/dict.h"
#include "value/kinds/iterator.h"
#include "value/kinds/python_module.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/protocol/operations.h"
#include "value/tensor/assertions.h"

namespace stator::handlers {

using bytecode::Instruction;

// --- jumps ----------------------------------------------------------------------------------------------------------

void Jump(Interpreter&, BytecodeFrame& frame, const Instruction& instruction) {
    frame.at = instruction.target;
}

void JumpBackward(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.count_loop();
    frame.at = instruction.target;
}

namespace {

void jump_if(BytecodeFrame& frame, const Instruction& instruction, bool jumps) {
    frame.at = jumps ? instruction.target : frame.at.next();
}

void jump_if_true(Interpreter&, BytecodeFrame& frame, const Instruction& instruction, Value* truth) {
    jump_if(frame, instruction, truth->object() == Py_True);
}

void jump_if_false(Interpreter&, BytecodeFrame& frame, const Instruction& instruction, Value* truth) {
    jump_if(frame, instruction, truth->object() != Py_True);
}

void jump_or_pop(BytecodeFrame& frame, const Instruction& instruction, bool jumps) {
    if (!jumps) frame.pop();
    jump_if(frame, instruction, jumps);
}

void jump_if_true_or_pop(Interpreter&, BytecodeFrame& frame, const Instruction& instruction, Value* truth) {
    jump_or_pop(frame, instruction, truth->object() == Py_True);
}

void jump_if_false_or_pop(Interpreter&, BytecodeFrame& frame, const Instruction& instruction, Value* truth) {
    jump_or_pop(frame, instruction, truth->object() != Py_True);
}

}  // namespace

void PopJumpIfTrue(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    const bool asserts = (*frame.code)[frame.at.next()].op == bytecode::Op::LoadAssertionError;
    if (asserts && assert_in_graph(t, frame.top())) return t.finish(frame, t.boolean(true), 1, jump_if_true);
    t.finish(frame, operations::truth(t, frame.top()), 1, jump_if_true);
}

void PopJumpIfFalse(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::truth(t, frame.top()), 1, jump_if_false);
}

void PopJumpIfNone(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    bool is_none = operations::same_object(t, frame.top(), t.none());
    frame.pop();
    jump_if(frame, instruction, is_none);
}

void PopJumpIfNotNone(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    bool is_none = operations::same_object(t, frame.top(), t.none());
    frame.pop();
    jump_if(frame, instruction, !is_none);
}

void JumpIfTrueOrPop(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::truth(t, frame.top()), 0, jump_if_true_or_pop);
}

void JumpIfFalseOrPop(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::truth(t, frame.top()), 0, jump_if_false_or_pop);
}

void GetIter(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::iterate(t, frame.top()), 1);
}

namespace {

void take_item(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction, Value* item) {
    if (item == t.exhausted()) {
        frame.pop();
        frame.at = instruction.target;
        return;
    }
    frame.push(item);
    next(frame);
}

}  // namespace

void ForIter(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::next(t, frame.top()), 0, take_item);
}

void EndFor(Interpreter& t, BytecodeFrame&, const Instruction&) {
    STATOR_CHECK(false, "END_FOR is jumped over");
}

// --- calls ----------------------------------------------------------------------------------------------------------

namespace {

/// The callable and its `self`, if it has one, from the two places below the arguments.
struct Callee {
    Value* callable;
    Value* self;
};

Callee callee_at(Interpreter& t, BytecodeFrame& frame, std::size_t below) {
    Value *lower = frame.top(below + 1), *upper = frame.top(below);
    if (cpython::kDialect.null_above_callable) return {lower, upper == t.null() ? nullptr : upper};
    if (lower == t.null()) return {upper, nullptr};
    return {lower, upper};
}

void call(Interpreter& t, BytecodeFrame& frame, std::size_t count, PyObject* names, int pops) {
    Callee callee = callee_at(t, frame, static_cast<std::size_t>(pops) - 2);
    std::size_t named = names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
    Arguments arguments;
    arguments.positional.reserve(count - named + 1);
    if (callee.self != nullptr) arguments.positional.push_back(callee.self);
    Value** first = frame.stack.data() + frame.stack.size() - static_cast<std::size_t>(pops) + 2;
    arguments.positional.insert(arguments.positional.end(), first, first + (count - named));
    for (std::size_t i = 0; i < named; ++i)
        arguments.keywords.push_back({PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)), first[count - named + i]});
    t.finish(frame, operations::call(t, callee.callable, arguments), pops);
}

}  // namespace

void Call(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    PyObject* names = instruction.extra >= 0 ? frame.code->constant(instruction.extra).get() : nullptr;
    call(t, frame, static_cast<std::size_t>(instruction.arg), names, instruction.arg + 2);
}

void CallKw(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Ref<> names = frame.top()->as_constant(t);
    STATOR_CHECK(bool(names), "the names of keywords are constants");
    call(t, frame, static_cast<std::size_t>(instruction.arg), t.keep(names), instruction.arg + 3);
}

namespace {

Task call_spread(Tracer& tracer, Value* callable, Value* self, Value* positional, Value* named) {
    Arguments arguments;
    if (self != nullptr) arguments.positional.push_back(self);
    tracer.realize(positional);
    if (!is_iterable(positional))
        tracer.raise(PyExc_TypeError, callable_title(callable) + " argument after * must be an iterable, not " +
                                          positional->type()->tp_name);
    auto* items = static_cast<ListValue*>(co_await operations::collect(tracer, positional));
    arguments.positional.insert(arguments.positional.end(), items->items.begin(), items->items.end());
    if (named != nullptr) {
        tracer.realize(named);
        auto* dict = cast<DictValue>(named);
        if (dict == nullptr)
            tracer.break_graph(BreakKind::UnknownObject, "a call f(**mapping) with a mapping that is not a dict");
        dict->complete_now(tracer);
        for (Table::Entry* entry : dict->table.entries()) {
            Ref<> name = entry->key->as_constant(tracer);
            if (!name || !PyUnicode_Check(name.get())) tracer.raise(PyExc_TypeError, "keywords must be strings");
            PyObject* key = tracer.keep(std::move(name));
            arguments.keywords.push_back({key, dict->find(tracer, key)});
        }
    }
    co_return co_await forwarded(operations::call(tracer, callable, arguments));
}

}  // namespace

void CallFunctionEx(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    bool has_named = instruction.arg == 1;
    std::size_t below = has_named ? 2 : 1;
    Callee callee = callee_at(t, frame, below);
    Outcome outcome = t.start(
        call_spread(t, callee.callable, callee.self, frame.top(has_named ? 1 : 0), has_named ? frame.top() : nullptr));
    t.finish(frame, outcome, static_cast<int>(below) + 2);
}

void ReturnValue(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.return_from_frame(frame, frame.pop());
}

void ReturnConst(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.return_from_frame(frame, t.literal(frame.code->constant(instruction.arg)));
}

// --- functions ------------------------------------------------------------------------------------------------------

namespace {

constexpr int kDefaults = 1, kKeywordDefaults = 2, kAnnotations = 4, kClosure = 8;

void set_part(Interpreter& t, FunctionValue* function, int part, Value* value) {
    t.realize(value);
    if (part == kDefaults) {
        function->defaults = as_sequence(value)->all(t);
    } else if (part == kKeywordDefaults) {
        auto* dict = cast<DictValue>(value);
        for (Table::Entry* entry : dict->table.entries())
            function->keyword_defaults.push_back({entry->key->object(), entry->value});
    } else if (part == kAnnotations) {
        function->annotations = value;
    } else if (part == kClosure) {
        for (Value* cell : as_sequence(value)->all(t)) function->closure.push_back(cast<CellValue>(cell));
    }
}

}  // namespace

void MakeFunction(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* code = reinterpret_cast<PyCodeObject*>(frame.pop()->object());
    auto* function = t.make<FunctionValue>(code);
    function->globals = frame.function->globals;
    function->builtins = frame.function->builtins;
    for (int part : {kClosure, kAnnotations, kKeywordDefaults, kDefaults})
        if ((instruction.arg & part) != 0) set_part(t, function, part, frame.pop());
    frame.push(function);
    next(frame);
}

void SetFunctionAttribute(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Value* function = frame.pop();
    set_part(t, cast<FunctionValue>(function), instruction.arg, frame.pop());
    frame.push(function);
    next(frame);
}

// --- imports --------------------------------------------------------------------------------------------------------

namespace {

/// Guards that the import of a name gives this module.
void guard_imported(Interpreter& t, Borrowed<> name) {
    PyObject* modules = PyImport_GetModuleDict();
    PyObject* module = PyDict_GetItemWithError(modules, name);
    if (module == nullptr) cannot(t, "an import of a module that is not in sys.modules yet");
    PyObject* key = name.get();
    Py_INCREF(key);
    PyUnicode_InternInPlace(&key);
    key = t.keep(Ref<>::steal(key));
    Source* place = t.provenance().child(t.provenance().pinned(modules), Access::DictItem, key, 0, module);
    t.guard({GuardKind::Identity, place, module});
}

/// Breaks the graph if the program has replaced `builtins.__import__`, and guards that it has not.
void expect_plain_import(Interpreter& t, BytecodeFrame& frame) {
    static PyObject* const plain = imported("builtins", "__import__");
    PyObject* builtins = frame.function->builtins;
    PyObject* now = PyDict_GetItemWithError(builtins, interned("__import__"));
    if (now != plain) cannot(t, "builtins.__import__ is replaced");
    Source* place =
        t.provenance().child(t.provenance().pinned(builtins), Access::DictItem, interned("__import__"), 0, now);
    t.guard({GuardKind::Identity, place, now});
}

}  // namespace

void ImportName(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    expect_plain_import(t, frame);
    Ref<> names = frame.top(0)->as_constant(t);
    Ref<> level = frame.top(1)->as_constant(t);
    STATOR_CHECK(names && level, "an import's operands are constants");
    Ref<> module = Ref<>::steal(PyImport_ImportModuleLevelObject(frame.code->name(instruction.arg),
                                                                 frame.function->globals, nullptr, names.get(),
                                                                 static_cast<int>(PyLong_AsLong(level.get()))));
    if (!module) {
        // The module may exist in the next call, and no guard would notice: the program has to execute the import.
        PyErr_Clear();
        cannot(t, "an import fails");
    }
    Borrowed<> name = frame.code->name(instruction.arg);
    if (PyLong_AsLong(level.get()) == 0) guard_imported(t, name);
    if (PyModule_Check(module.get())) {
        // `import package.module` gives the package; a relative name is resolved.
        Ref<> own_name = Ref<>::steal(PyModule_GetNameObject(module.get()));
        if (!own_name) PyErr_Clear();
        if (own_name && PyDict_GetItemWithError(PyImport_GetModuleDict(), own_name.get()) == module.get())
            guard_imported(t, own_name);
    }
    t.finish(frame, t.constant(module.get()), 2);
}

namespace {

Task import_from(Tracer& tracer, Value* module, PyObject* name) {
    Value* found = co_await operations::get_attribute_or(tracer, module, name, nullptr);
    if (found != nullptr) co_return found;
    PyObject* real = module->object();
    Ref<> module_name = Ref<>::steal(PyModule_GetNameObject(real));
    if (!module_name) tracer.raise_from_python();
    // A submodule that is being imported is not yet an attribute of its package: Python looks into sys.modules.
    Ref<> full_name = checked(PyUnicode_FromFormat("%U.%U", module_name.get(), name));
    if (PyDict_GetItemWithError(PyImport_GetModuleDict(), full_name.get()) != nullptr)
        tracer.break_graph(BreakKind::Instruction, "an import of a submodule that is not an attribute of its package");
    Ref<> path = Ref<>::steal(PyModule_GetFilenameObject(real));
    if (!path) PyErr_Clear();
    Ref<> message =
        path ? checked(PyUnicode_FromFormat("cannot import name %R from %R (%S)", name, module_name.get(), path.get()))
             : checked(
                   PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, module_name.get()));
    PyErr_SetImportError(message.get(), module_name.get(), path.get());
    tracer.raise_from_python();
}

}  // namespace

void ImportFrom(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    PyObject* module = frame.top()->object();
    if (module == nullptr || !PyModule_Check(module))
        cannot(t, "a name is imported from an object that is not a module");
    t.finish(frame, t.start(import_from(t, frame.top(), name)), 0);
}

void ImportStar(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "import * is executed");
}

void PrintExpr(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "an interactive expression is printed");
}

void CallIntrinsic1(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    constexpr int kStopIterationError = 3, kUnaryPositive = 5, kListToTuple = 6;
    if (instruction.arg == kUnaryPositive)
        return t.finish(frame, operations::unary(t, UnaryOperator::Positive, frame.top()), 1);
    if (instruction.arg == kListToTuple) return ListToTuple(t, frame, instruction);
    if (instruction.arg == kStopIterationError) {
        Value* exception = frame.top();
        if (frame.generator != nullptr) return t.finish(frame, t.leaving_generator(frame.generator, exception), 1);
        for (PyObject* end : {PyExc_StopIteration, PyExc_StopAsyncIteration})
            if (PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(end)))
                cannot(t, "a generator that was started outside raises StopIteration");
        return t.finish(frame, exception, 1);
    }
    cannot(t, "a type alias or type parameter is created inside the function");
}

void CallIntrinsic2(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "a type parameter is created inside the function");
}

}  // namespace stator::handlers
