#include "bytecode/only_loads.h"

namespace stator::bytecode {

bool only_loads(Op op) {
    switch (op) {
        case Op::Nop:
        case Op::Resume:
        case Op::PushNull:
        case Op::Copy:
        case Op::Swap:
        case Op::LoadConst:
        case Op::LoadFast:
        case Op::LoadFastCheck:
        case Op::LoadDeref:
        case Op::LoadGlobal:
        case Op::Jump:
        case Op::JumpBackward:
            return true;
        default:
            return false;
    }
}

}  // namespace stator::bytecode
