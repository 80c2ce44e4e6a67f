/// The stack, constants and variables.
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/opcodes.h"
#include "trace/handlers/handlers.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/protocol/attributes.h"

namespace stator::handlers {

using bytecode::Instruction;

void Nop(Interpreter&, BytecodeFrame& frame, const Instruction&) {
    next(frame);
}

void Resume(Interpreter&, BytecodeFrame& frame, const Instruction&) {
    if (frame.generator != nullptr && frame.generator->thrown != nullptr)
        throw Raised{std::exchange(frame.generator->thrown, nullptr)};
    next(frame);
}

void PopTop(Interpreter&, BytecodeFrame& frame, const Instruction&) {
    frame.pop();
    next(frame);
}

void PushNull(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    frame.push(t.null());
    next(frame);
}

void Copy(Interpreter&, BytecodeFrame& frame, const Instruction& instruction) {
    frame.push(frame.top(static_cast<std::size_t>(instruction.arg) - 1));
    next(frame);
}

void Swap(Interpreter&, BytecodeFrame& frame, const Instruction& instruction) {
    std::swap(frame.stack.back(), frame.stack[frame.stack.size() - static_cast<std::size_t>(instruction.arg)]);
    next(frame);
}

void LoadConst(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    frame.push(t.literal(frame.code->constant(instruction.arg)));
    next(frame);
}

void LoadAssertionError(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    frame.push(t.constant(PyExc_AssertionError));
    next(frame);
}

// --- locals ---------------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void raise_unbound(Interpreter& t, BytecodeFrame& frame, int slot) {
    t.raise(PyExc_UnboundLocalError, "cannot access local variable '" + std::string(utf8(frame.code->slot_name(slot))) +
                                         "' where it is not associated with a value");
}

CellValue* cell_at(BytecodeFrame& frame, int slot) {
    auto* cell = cast<CellValue>(frame.slots[static_cast<std::size_t>(slot)]);
    STATOR_CHECK(cell != nullptr, "the slot holds no cell");
    return cell;
}

void set_slot(Interpreter& t, BytecodeFrame& frame, int slot, Value* value) {
    t.on_undo([&frame, slot, before = frame.slots[static_cast<std::size_t>(slot)]] {
        frame.slots[static_cast<std::size_t>(slot)] = before;
    });
    frame.slots[static_cast<std::size_t>(slot)] = value;
}

}  // namespace

void LoadFast(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Value* value = frame.slots[static_cast<std::size_t>(instruction.arg)];
    if (value == nullptr) raise_unbound(t, frame, instruction.arg);
    frame.push(value);
    next(frame);
}

void LoadFastCheck(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    LoadFast(t, frame, instruction);
}

void LoadFastAndClear(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Value* value = frame.slots[static_cast<std::size_t>(instruction.arg)];
    frame.push(value == nullptr ? t.null() : value);
    set_slot(t, frame, instruction.arg, nullptr);
    next(frame);
}

void StoreFast(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Value* value = frame.pop();
    set_slot(t, frame, instruction.arg, value == t.null() ? nullptr : value);
    t.name_after(value, frame.code->slot_name(instruction.arg));
    next(frame);
}

void DeleteFast(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    if (frame.slots[static_cast<std::size_t>(instruction.arg)] == nullptr) raise_unbound(t, frame, instruction.arg);
    set_slot(t, frame, instruction.arg, nullptr);
    next(frame);
}

// --- cells ----------------------------------------------------------------------------------------------------------

void MakeCell(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* cell = t.make<CellValue>();
    cell->contents = frame.slots[static_cast<std::size_t>(instruction.arg)];
    cell->name = frame.code->slot_name(instruction.arg);
    PyCodeObject* code = frame.function->code;
    cell->variable_of = code;
    cell->is_parameter = instruction.arg < code->co_argcount + code->co_kwonlyargcount;
    set_slot(t, frame, instruction.arg, cell);
    next(frame);
}

void CopyFreeVars(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    const auto count = static_cast<std::size_t>(instruction.arg);
    const std::size_t first = static_cast<std::size_t>(frame.code->slot_count()) - count;
    for (std::size_t i = 0; i < count; ++i) frame.slots[first + i] = frame.function->closure_cell(t, i);
    next(frame);
}

void LoadDeref(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Value* value = cell_at(frame, instruction.arg)->get(t);
    if (value == nullptr) {
        std::string name(utf8(frame.code->slot_name(instruction.arg)));
        if (frame.code->slot_kind(instruction.arg).is_free)
            t.raise(PyExc_NameError, "cannot access free variable '" + name +
                                         "' where it is not associated with a value in enclosing scope");
        raise_unbound(t, frame, instruction.arg);
    }
    frame.push(value);
    next(frame);
}

void StoreDeref(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    cell_at(frame, instruction.arg)->set(t, frame.top());
    t.name_after(frame.top(), frame.code->slot_name(instruction.arg));
    frame.pop();
    next(frame);
}

void DeleteDeref(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    CellValue* cell = cell_at(frame, instruction.arg);
    if (cell->get(t) == nullptr) raise_unbound(t, frame, instruction.arg);
    cell->set(t, nullptr);
    next(frame);
}

// --- globals --------------------------------------------------------------------------------------------------------

namespace {

/// The value of a name in a dict of globals or builtins; null if there is none. Guards either result.
Value* look_up(Interpreter& t, PyObject* dict, Borrowed<> name, const char* label) {
    if (DictValue* changed = changed_dict(t, dict)) return changed->find(t, name);
    Source* holder = t.provenance().pinned(dict);
    if (holder->key == nullptr) holder->key = interned(label);
    PyObject* found = PyDict_GetItemWithError(dict, name);
    bool is_new = false;
    Source* place = t.provenance().child(holder, Access::DictItem, name, 0, found, &is_new);
    if (is_new) t.guard({found != nullptr ? GuardKind::Present : GuardKind::Absent, place});
    return found == nullptr ? nullptr : t.outside(place, found);
}

[[noreturn]] void raise_not_defined(Interpreter& t, Borrowed<> name) {
    std::string text = "name '" + std::string(utf8(name)) + "' is not defined";
    ExceptionValue* exception = make_exception(t, reinterpret_cast<PyTypeObject*>(PyExc_NameError), {t.string(text)});
    exception->attributes = {{interned("name"), t.constant(name)}};
    throw Raised{exception};
}

/// The globals of the running function, to be mutated.
DictValue* globals_of(Interpreter& t, BytecodeFrame& frame) {
    PyObject* globals = frame.function->globals;
    if (!PyDict_CheckExact(globals)) cannot(t, "the globals of the function are not a plain dict");
    Source* holder = t.provenance().pinned(globals);
    if (holder->key == nullptr) holder->key = interned("G");
    auto* dict = static_cast<DictValue*>(t.outside(holder, globals));
    t.realize(dict);
    return dict;
}

}  // namespace

void LoadGlobal(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    if (!PyDict_CheckExact(frame.function->globals) || !PyDict_CheckExact(frame.function->builtins))
        cannot(t, "the globals of the function are not a plain dict");
    Value* value = look_up(t, frame.function->globals, name, "G");
    if (value == nullptr) value = look_up(t, frame.function->builtins, name, "builtins");
    if (value == nullptr) raise_not_defined(t, name);
    bool with_null = instruction.extra == 1;
    if (with_null && !cpython::kDialect.null_above_callable) frame.push(t.null());
    frame.push(value);
    if (with_null && cpython::kDialect.null_above_callable) frame.push(t.null());
    next(frame);
}

void StoreGlobal(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    globals_of(t, frame)->insert(t, t.constant(name), frame.top());
    t.name_after(frame.top(), name);
    frame.pop();
    next(frame);
}

void DeleteGlobal(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    if (globals_of(t, frame)->remove(t, t.constant(name)) == nullptr) raise_not_defined(t, name);
    next(frame);
}

// --- names of class bodies ------------------------------------------------------------------------------------------

namespace {

/// The dict of a class body. Code of `exec()` and of modules is executed, not called, so it is never traced.
DictValue* names_of(Interpreter& t, BytecodeFrame& frame) {
    const auto count = static_cast<std::size_t>(frame.code->slot_count());
    if (frame.slots.size() == count) cannot(t, "code of exec() or of a module is executed");
    return static_cast<DictValue*>(frame.slots[count]);
}

Value* find_global(Interpreter& t, BytecodeFrame& frame, Borrowed<> name) {
    if (!PyDict_CheckExact(frame.function->globals) || !PyDict_CheckExact(frame.function->builtins))
        cannot(t, "the globals of the function are not a plain dict");
    Value* value = look_up(t, frame.function->globals, name, "G");
    return value != nullptr ? value : look_up(t, frame.function->builtins, name, "builtins");
}

void push_or_raise(Interpreter& t, BytecodeFrame& frame, Borrowed<> name, Value* value) {
    if (value == nullptr) raise_not_defined(t, name);
    frame.push(value);
    next(frame);
}

/// The mapping on the stack of an instruction that looks a name up in it first: that of the class body.
DictValue* pop_names(Interpreter& t, BytecodeFrame& frame) {
    auto* names = cast<DictValue>(frame.top());
    if (names == nullptr || names != names_of(t, frame)) cannot(t, "names are looked up in a mapping");
    frame.pop();
    return names;
}

void load_name_or_cell(Interpreter& t, BytecodeFrame& frame, DictValue* names, int slot) {
    if (Value* value = names->find(t, frame.code->slot_name(slot))) {
        frame.push(value);
        return next(frame);
    }
    Instruction of_cell{};
    of_cell.arg = slot;
    LoadDeref(t, frame, of_cell);
}

}  // namespace

void LoadName(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    Value* value = names_of(t, frame)->find(t, name);
    push_or_raise(t, frame, name, value != nullptr ? value : find_global(t, frame, name));
}

void StoreName(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    names_of(t, frame)->insert(t, t.constant(name), frame.top());
    t.name_after(frame.top(), name);
    frame.pop();
    next(frame);
}

void DeleteName(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    if (names_of(t, frame)->remove(t, t.constant(name)) == nullptr) raise_not_defined(t, name);
    next(frame);
}

void LoadClassDeref(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    load_name_or_cell(t, frame, names_of(t, frame), instruction.arg);
}

void LoadFromDictOrDeref(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    load_name_or_cell(t, frame, pop_names(t, frame), instruction.arg);
}

void LoadFromDictOrGlobals(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Borrowed<> name = frame.code->name(instruction.arg);
    Value* value = pop_names(t, frame)->find(t, name);
    push_or_raise(t, frame, name, value != nullptr ? value : find_global(t, frame, name));
}

void LoadLocals(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    frame.push(names_of(t, frame));
    next(frame);
}

void SetupAnnotations(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    DictValue* names = names_of(t, frame);
    if (names->find(t, interned("__annotations__")) == nullptr)
        names->insert(t, t.constant(interned("__annotations__")), t.make<DictValue>());
    next(frame);
}

void LoadBuildClass(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* builder = look_up(t, frame.function->builtins, interned("__build_class__"), "builtins");
    if (builder == nullptr) cannot(t, "a class is defined, and __build_class__ is not found");
    frame.push(builder);
    next(frame);
}

}  // namespace stator::handlers
