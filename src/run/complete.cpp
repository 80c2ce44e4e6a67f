/// What an instruction does with its result: pushes it, drops it, or jumps.
#include "cpython/opcodes.h"
#include "run/step.h"

namespace stator {

using bytecode::Code;
using bytecode::Index;
using bytecode::Instruction;
using bytecode::Op;

Stepped complete(cpython::Frame* frame, const Code& code, Index at, Result result) {
    const Instruction& instruction = code[at];
    auto push_callable = [&] {
        if (!cpython::kDialect.null_above_callable) cpython::push(frame, nullptr);
        cpython::push(frame, std::move(result.value));
        if (cpython::kDialect.null_above_callable) cpython::push(frame, nullptr);
    };
    switch (instruction.op) {
        case Op::StoreAttr:
        case Op::DeleteAttr:
        case Op::StoreSubscr:
        case Op::DeleteSubscr:
        case Op::StoreSlice:
        case Op::PopTop:
        case Op::ListAppend:
        case Op::SetAdd:
        case Op::MapAdd:
        case Op::ListExtend:
        case Op::SetUpdate:
        case Op::DictUpdate:
        case Op::DictMerge:
        case Op::StoreGlobal:
        case Op::StoreDeref:
            break;
        case Op::LoadMethod:
            push_callable();
            break;
        case Op::LoadSuperAttr:
            if ((instruction.extra & 1) != 0)
                push_callable();
            else
                cpython::push(frame, std::move(result.value));
            break;
        case Op::LoadGlobal:
            if (instruction.extra == 1)
                push_callable();
            else
                cpython::push(frame, std::move(result.value));
            break;
        case Op::ForIter:
            if (!result.value || result.has_ended) {
                cpython::drop(frame, 1);
                return {Stepped::Kind::Next, instruction.target};
            }
            cpython::push(frame, std::move(result.value));
            break;
        case Op::Send:
            if (result.has_ended && !cpython::kDialect.send_keeps_receiver) cpython::drop(frame, 1);
            cpython::push(frame, std::move(result.value));
            if (result.has_ended) return {Stepped::Kind::Next, instruction.target};
            break;
        default:
            // An instruction other than a loop requested the item.
            if (!result.value || (result.has_ended && result.value.get() == Py_None)) {
                PyErr_SetNone(PyExc_StopIteration);
                return {Stepped::Kind::Raised, at};
            }
            if (result.has_ended) {
                Ref<> exception = Ref<>::steal(PyObject_CallOneArg(PyExc_StopIteration, result.value.get()));
                if (exception) PyErr_SetObject(PyExc_StopIteration, exception.get());
                return {Stepped::Kind::Raised, at};
            }
            cpython::push(frame, std::move(result.value));
    }
    return {Stepped::Kind::Next, at.next()};
}

}  // namespace stator
