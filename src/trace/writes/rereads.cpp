#include "trace/writes/rereads.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "bytecode/order.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "value/kinds/class.h"
#include "value/kinds/partial.h"
#include "value/kinds/python_module.h"

namespace stator {

namespace {

using bytecode::Op;

/// A `functools.partial` of a function is as constant as the function. The code that calls it reads its arguments.
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

bool is_mutable_container(const Value* value) {
    switch (value->kind) {
        case Kind::List:
        case Kind::Dict:
        case Kind::DictView:
        case Kind::Set:
        case Kind::Deque:
        case Kind::Object:
            return true;
        default:
            return false;
    }
}

/// Whether the program can mutate an object from outside, or an object inside of it.
bool is_mutable_outside(const Value* value) {
    bool has_mutable_parts =
        value->kind == Kind::Method || value->kind == Kind::Iterator || value->kind == Kind::TensorObject;
    return value->source != nullptr && (is_mutable_container(value) || has_mutable_parts);
}

bool is_mutable_made_in_trace(const Value* value) {
    return value->source == nullptr && is_mutable_container(value);
}

/// A member of an enum class, which can't be assigned.
bool is_enum_member_of(const Value* value, const Value* owner) {
    const auto* type = cast<ClassValue>(owner);
    return type != nullptr && value->type() == type->held &&
           PyType_IsSubtype(type->held, torch_room::known().enum_class) != 0;
}

bool is_torch_module(const Value* value) {
    return PyType_IsSubtype(value->type(), torch_room::known().module_class) != 0;
}

/// Whether the globals are those of an installed package or of the standard library. They are constants, or settings
/// that programs don't change between a forward and a backward pass.
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

/// Whether attributes of a function, class or Python module are assumed constant.
bool is_library_object(const Value* owner) {
    if (owner->kind == Kind::PythonModule)
        return has_library_globals(PyModule_GetDict(static_cast<const PythonModuleValue*>(owner)->held));
    if (owner->kind != Kind::Class) return true;  // attributes of a function are part of it
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

std::string attribute_of_object(const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    return named("attribute", frame, instruction) + " of an object" + place(frame);
}

}  // namespace

void Rereads::note_object(const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    if (!found_.empty() || kind_ == DeferredGraph::Kind::Recomputed || frame.stack.empty()) return;
    if (std::optional<std::string> used = unused_.used_by(frame, instruction)) {
        found_ = *std::move(used);
        return;
    }
    // What an attribute holds is seen after the instruction.
    if (instruction.op == Op::LoadAttr && frame.top()->kind == Kind::Object) return;
    bool is_item = instruction.op == Op::BinarySubscr && frame.stack.size() > 1;
    if (!is_item && !is_attribute_read(instruction.op) && instruction.op != Op::GetIter) return;
    if (is_mutable_outside(frame.top(is_item ? 1 : 0)))
        found_ = is_attribute_read(instruction.op) ? attribute_of_object(frame, instruction)
                                                   : "an item of a container" + place(frame);
}

void Rereads::note_variable(const Value* value, std::string what) {
    const bool is_followed =
        kind_ == DeferredGraph::Kind::Backward && is_mutable_outside(value) && unused_.add_object(value, what);
    if (!is_followed) found_ = std::move(what);
}

void Rereads::note_value(const BytecodeFrame& frame, const bytecode::Instruction& instruction, const Value* operand) {
    if (!found_.empty()) return;
    const Value* value = frame.stack.back();
    const Value* owner = instruction.op == Op::LoadAttr ? operand : nullptr;
    if (kind_ != DeferredGraph::Kind::Recomputed && operand != nullptr) {
        unused_.note_sum(frame, instruction, operand);
        const bool is_followed = owner != nullptr && owner->kind == Kind::Object && is_mutable_outside(owner);
        std::string what = is_followed ? attribute_of_object(frame, instruction) : "";
        PyObject* name = is_followed ? frame.code->name(instruction.arg) : nullptr;
        if (is_followed && !unused_.add_attribute(owner, name, value, what)) {
            found_ = std::move(what);
            return;
        }
    }
    if (value->kind == Kind::Null && frame.stack.size() > 1) value = frame.top(1);
    if (is_code(value)) return;
    if (owner != nullptr && is_code(owner) && value->kind != Kind::Method && !is_enum_member_of(value, owner) &&
        !is_library_object(owner))
        found_ = named("attribute", frame, instruction) + " of " + owner->print() + place(frame);
    note_made_value(frame, instruction, value);
    if (value->source == nullptr) return;
    const bool is_recomputed = kind_ == DeferredGraph::Kind::Recomputed;
    // (A compiler saves the contents of tensors for the backward pass.)
    const bool is_given =
        is_recomputed &&
        (is_torch_module(value) || (value->kind == Kind::Tensor && tracer_->run_by() == Tracer::RunBy::Stator));
    switch (instruction.op) {
        case Op::LoadGlobal:
        case Op::LoadName:
            if (!is_given && !has_library_globals(frame.function->globals))
                note_variable(value, named("global variable", frame, instruction) + place(frame));
            return;
        case Op::LoadDeref: {
            const auto* cell = cast<CellValue>(frame.slots[static_cast<std::size_t>(instruction.arg)]);
            // What a decorator of a package has closed over (`torch.amp.custom_bwd(device_type=...)`) is as constant
            // as the package.
            bool is_outside = cell != nullptr && cell->source != nullptr &&
                              !(value->kind == Kind::Constant && has_library_globals(frame.function->globals));
            if (!is_given && (is_outside || (!is_recomputed && is_mutable_outside(value))))
                note_variable(value, named_slot(frame, instruction) + " of an enclosing function" + place(frame));
            return;
        }
        case Op::LoadFast:
        case Op::LoadFastCheck:
            if (!is_recomputed && is_mutable_outside(value) && !unused_.contains(value))
                note_variable(value, "a mutable argument" + place(frame));
            return;
        default:
            return;
    }
}

void Rereads::note_made_value(const BytecodeFrame& frame, const bytecode::Instruction& instruction,
                              const Value* value) {
    const Value* read = kind_ == DeferredGraph::Kind::Backward && is_mutable_made_in_trace(value) ? value : nullptr;
    if (instruction.op == Op::LoadDeref) {
        const auto* cell = cast<CellValue>(frame.slots[static_cast<std::size_t>(instruction.arg)]);
        if (cell != nullptr && cell->source == nullptr && !cell->is_settled()) read = cell;
    }
    if (read == nullptr) return;
    auto is_it = [read](const ReadMade& made) { return made.value == read; };
    if (std::ranges::none_of(read_made_, is_it)) read_made_.push_back({read, frame.function->code, frame.line()});
}

namespace {

/// The values that the program can still reach after the instruction that captures the deferred graph.
Lifetimes::HeldValues reachable_afterwards(const CallStack& call_stack, const Lifetimes& lifetimes) {
    std::vector<const Value*> roots;
    for (const auto& activation : call_stack.frames) {
        if (activation->is_task) continue;
        const auto& frame = static_cast<const BytecodeFrame&>(*activation);
        for (std::size_t slot = 0; slot < frame.slots.size(); ++slot) {
            const Value* value = frame.slots[slot];
            if (value == nullptr) continue;
            if (value->kind == Kind::Cell || bytecode::may_read_after(*frame.code, frame.at, static_cast<int>(slot)))
                roots.push_back(value);
        }
        // All frames wait: their instructions will pop the operands.
        std::size_t stack = frame.stack.size();
        stack -= std::min(stack, static_cast<std::size_t>(frame.pops));
        roots.insert(roots.end(), frame.stack.begin(), frame.stack.begin() + static_cast<std::ptrdiff_t>(stack));
        roots.push_back(frame.function);
        roots.push_back(frame.generator);
    }
    return lifetimes.held_from(std::move(roots));
}

}  // namespace

void Rereads::check_made_values(const CallStack& stack, const Lifetimes& lifetimes) {
    if (!found_.empty() || read_made_.empty()) return;
    const Lifetimes::HeldValues held = reachable_afterwards(stack, lifetimes);
    for (const ReadMade& made : read_made_) {
        if (!held.contains(made.value)) continue;
        const auto* cell = cast<CellValue>(made.value);
        found_ = (cell == nullptr ? "an object that the program still holds"
                                  : "variable '" + std::string(utf8(cell->name)) + "', which is assigned again") +
                 place(made.code, made.line);
        return;
    }
}

}  // namespace stator
