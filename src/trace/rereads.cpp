/// What code that runs later (a hook, the `backward` of a Function, a checkpointed function) reads outside of the
/// graph. It is traced when it is registered, and would read these places again when it runs: a global number, an item
/// of a dict or an attribute of an object may be another one by then. What can be taken as it is: code (functions,
/// classes, modules of Python), members of enums, constants of libraries, and what the trace itself made, such as the
/// context of a Function, if the program can't get at it any more or it is a variable that is assigned once. The
/// modules and tensors that a checkpointed function is given are what the graph takes as inputs.
#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "bytecode/order.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "trace/handlers.h"
#include "trace/interpreter.h"
#include "value/kinds/class.h"
#include "value/kinds/partial.h"
#include "value/kinds/python_module.h"

namespace stator {

namespace {

using bytecode::Op;

/// A `functools.partial` of a function is as fixed as the function is; its arguments are looked at where it reads them.
bool is_partial_of_code(const Value* value) {
    if (value->kind != Kind::Object || value->object() == nullptr || !is_partial_class(value->type())) return false;
    Ref<> function = Ref<>::steal(PyObject_GetAttrString(value->object(), "func"));
    PyErr_Clear();
    return function && (PyFunction_Check(function.get()) || PyCFunction_Check(function.get()));
}

bool is_code(const Value* value) {
    switch (value->kind) {
        case Kind::Null:
        case Kind::Function:
        case Kind::Builtin:
        case Kind::Class:
        case Kind::PythonModule:
        case Kind::Super:
            return true;
        default:
            return is_partial_of_code(value);
    }
}

/// Whether the program can change it without assigning to the place that it was read from.
bool is_changeable(const Value* value) {
    switch (value->kind) {
        case Kind::List:
        case Kind::Dict:
        case Kind::DictView:
        case Kind::Set:
        case Kind::Deque:
        case Kind::Object:
        case Kind::Method:
        case Kind::Iterator:
        case Kind::TensorObject:
            return value->source != nullptr;
        default:
            return false;
    }
}

/// The same of what the trace has made.
bool is_changeable_made(const Value* value) {
    switch (value->kind) {
        case Kind::List:
        case Kind::Dict:
        case Kind::DictView:
        case Kind::Set:
        case Kind::Deque:
        case Kind::Object:
            return value->source == nullptr;
        default:
            return false;
    }
}

/// A member of an enum class, which does not let itself be given another one.
bool is_enum_member_of(const Value* value, const Value* owner) {
    const auto* type = cast<ClassValue>(owner);
    return type != nullptr && value->type() == type->held &&
           PyType_IsSubtype(type->held, torch_room::known().enum_class) != 0;
}

bool is_torch_module(const Value* value) {
    return PyType_IsSubtype(value->type(), torch_room::known().module_class) != 0;
}

/// Whether the globals are those of an installed package or of Python itself: what these hold are settings at most,
/// which nobody changes between a forward and a backward pass.
bool has_library_globals(PyObject* globals) {
    if (globals == nullptr) return false;
    PyObject* file = PyDict_GetItemString(globals, "__file__");
    if (file != nullptr && PyUnicode_Check(file)) {
        std::string_view path = utf8(file);
        for (const char* part : {"site-packages", "dist-packages"})
            if (path.find(part) != std::string_view::npos) return true;
    }
    PyObject* name = PyDict_GetItemString(globals, "__name__");
    PyObject* standard = PySys_GetObject("stdlib_module_names");
    if (name == nullptr || !PyUnicode_Check(name) || standard == nullptr) return false;
    std::string_view text = utf8(name);
    if (text == "torch" || text.starts_with("torch.")) return true;
    std::string_view first = text.substr(0, text.find('.'));
    Ref<> key = checked(PyUnicode_FromStringAndSize(first.data(), static_cast<Py_ssize_t>(first.size())));
    return checked(PySet_Contains(standard, key.get())) == 1;
}

/// Whether an attribute of it is as fixed as code is.
bool is_library_object(const Value* owner) {
    if (owner->kind == Kind::PythonModule)
        return has_library_globals(PyModule_GetDict(static_cast<const PythonModuleValue*>(owner)->held));
    if (owner->kind != Kind::Class) return true;  // a function: its attributes are part of it
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(owner->object(), "__module__"));
    PyObject* module = name ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name.get()) : nullptr;
    PyErr_Clear();
    return module != nullptr && PyModule_Check(module) && has_library_globals(PyModule_GetDict(module));
}

bool is_attribute_read(Op op) {
    return op == Op::LoadAttr || op == Op::LoadMethod;
}

std::string named(const char* what, const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    return std::string(what) + " '" + std::string(utf8(frame.code->name(instruction.arg))) + "'";
}

std::string named_slot(const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    return "variable '" + std::string(utf8(frame.code->slot_name(instruction.arg))) + "'";
}

std::string place(PyCodeObject* code, int line) {
    return " (" + std::string(utf8(code->co_filename)) + ":" + std::to_string(line) + ")";
}

std::string place(const BytecodeFrame& frame) {
    return place(frame.function->code, frame.line());
}

}  // namespace

void Interpreter::step_later(BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    note_reread_object(frame, instruction);
    const Value* owner = instruction.op == Op::LoadAttr ? frame.top() : nullptr;
    kOpHandlers[static_cast<std::size_t>(instruction.op)](*this, frame, instruction);
    // What an inlined call will give is read by instructions of its own.
    if (later_ && !frames_.empty() && frames_.back() == &frame && !frame.stack.empty())
        note_reread_value(frame, instruction, owner);
}

void Interpreter::note_reread_object(const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    if (!later_->rereads.empty() || later_->kind == LaterKind::Recomputed || frame.stack.empty()) return;
    bool is_item = instruction.op == Op::BinarySubscr && frame.stack.size() > 1;
    if (!is_item && !is_attribute_read(instruction.op) && instruction.op != Op::GetIter) return;
    if (is_changeable(frame.top(is_item ? 1 : 0)))
        later_->rereads = (is_attribute_read(instruction.op) ? named("attribute", frame, instruction) + " of an object"
                                                             : std::string("an item of a container")) +
                          place(frame);
}

void Interpreter::note_reread_value(const BytecodeFrame& frame, const bytecode::Instruction& instruction,
                                    const Value* owner) {
    if (!later_->rereads.empty()) return;
    const Value* value = frame.stack.back();
    if (value->kind == Kind::Null && frame.stack.size() > 1) value = frame.top(1);
    if (is_code(value)) return;
    if (owner != nullptr && is_code(owner) && value->kind != Kind::Method && !is_enum_member_of(value, owner) &&
        !is_library_object(owner))
        later_->rereads = named("attribute", frame, instruction) + " of " + owner->print() + place(frame);
    note_reread_made(frame, instruction, value);
    if (value->source == nullptr) return;
    const bool is_recomputed = later_->kind == LaterKind::Recomputed;
    // (What a tensor holds is saved where a compiler makes the backward pass.)
    const bool is_given =
        is_recomputed && (is_torch_module(value) || (value->kind == Kind::Tensor && run_by_ == RunBy::Stator));
    switch (instruction.op) {
        case Op::LoadGlobal:
        case Op::LoadName:
            if (!is_given && !has_library_globals(frame.function->globals))
                later_->rereads = named("global variable", frame, instruction) + place(frame);
            return;
        case Op::LoadDeref: {
            const auto* cell = cast<CellValue>(frame.slots[static_cast<std::size_t>(instruction.arg)]);
            bool is_outside = cell != nullptr && cell->source != nullptr;
            if (!is_given && (is_outside || (!is_recomputed && is_changeable(value))))
                later_->rereads = named_slot(frame, instruction) + " of an enclosing function" + place(frame);
            return;
        }
        case Op::LoadFast:
        case Op::LoadFastCheck:
            if (!is_recomputed && is_changeable(value)) later_->rereads = "a mutable argument" + place(frame);
            return;
        default:
            return;
    }
}

void Interpreter::note_reread_made(const BytecodeFrame& frame, const bytecode::Instruction& instruction,
                                   const Value* value) {
    const Value* read = later_->kind == LaterKind::Backward && is_changeable_made(value) ? value : nullptr;
    if (instruction.op == Op::LoadDeref) {
        const auto* cell = cast<CellValue>(frame.slots[static_cast<std::size_t>(instruction.arg)]);
        if (cell != nullptr && cell->source == nullptr && !cell->is_settled()) read = cell;
    }
    if (read == nullptr) return;
    auto is_it = [read](const LaterPart::ReadMade& made) { return made.value == read; };
    if (std::ranges::none_of(later_->read_made, is_it))
        later_->read_made.push_back({read, frame.function->code, frame.line()});
}

Interpreter::HeldValues Interpreter::within_reach_of_the_program() const {
    std::vector<const Value*> roots;
    for (const auto& activation : frames_) {
        if (activation->is_task) continue;
        const auto& frame = static_cast<const BytecodeFrame&>(*activation);
        for (std::size_t slot = 0; slot < frame.slots.size(); ++slot) {
            const Value* value = frame.slots[slot];
            if (value == nullptr) continue;
            if (value->kind == Kind::Cell || bytecode::may_read_after(*frame.code, frame.at, static_cast<int>(slot)))
                roots.push_back(value);
        }
        // All frames wait: the operands of what they execute are used up.
        std::size_t stack = frame.stack.size();
        stack -= std::min(stack, static_cast<std::size_t>(frame.pops));
        roots.insert(roots.end(), frame.stack.begin(), frame.stack.begin() + static_cast<std::ptrdiff_t>(stack));
        roots.push_back(frame.function);
        roots.push_back(frame.generator);
    }
    return held_from(std::move(roots));
}

void Interpreter::check_read_made() {
    if (!later_->rereads.empty() || later_->read_made.empty()) return;
    const HeldValues held = within_reach_of_the_program();
    for (const LaterPart::ReadMade& made : later_->read_made) {
        if (!held.contains(made.value)) continue;
        const auto* cell = cast<CellValue>(made.value);
        later_->rereads =
            (cell == nullptr ? "an object that the program still holds"
                             : "variable '" + std::string(utf8(cell->name)) + "', which is assigned again") +
            place(made.code, made.line);
        return;
    }
}

}  // namespace stator
