// The stack effects that opcodes.def describes, as numbers.
#include <bit>

#include "bytecode/instruction.h"
#include "cpython/opcodes.h"

namespace stator::bytecode {

int stack_effect(const Instruction& instruction, bool jumps) {
    const int arg = instruction.arg;
    const int extra = instruction.extra;
    switch (instruction.op) {
        case Op::Nop:
        case Op::DeleteFast:
        case Op::MakeCell:
        case Op::CopyFreeVars:
        case Op::DeleteDeref:
        case Op::LoadFromDictOrDeref:
        case Op::DeleteGlobal:
        case Op::DeleteName:
        case Op::LoadFromDictOrGlobals:
        case Op::SetupAnnotations:
        case Op::LoadAttr:
        case Op::UnaryPositive:
        case Op::UnaryNegative:
        case Op::UnaryNot:
        case Op::UnaryInvert:
        case Op::ToBool:
        case Op::ListToTuple:
        case Op::ConvertValue:
        case Op::Jump:
        case Op::JumpBackward:
        case Op::GetIter:
        case Op::EndFor:
        case Op::Resume:
        case Op::ReturnConst:
        case Op::CheckExcMatch:
        case Op::CheckEgMatch:
        case Op::YieldValue:
        case Op::GetYieldFromIter:
        case Op::GetAwaitable:
        case Op::GetAiter:
        case Op::AsyncGenWrap:
        case Op::CallIntrinsic1:
        case Op::Swap:
            return 0;

        case Op::PushNull:
        case Op::Copy:
        case Op::LoadConst:
        case Op::LoadFast:
        case Op::LoadFastCheck:
        case Op::LoadFastAndClear:
        case Op::LoadDeref:
        case Op::LoadClassDeref:
        case Op::LoadName:
        case Op::LoadLocals:
        case Op::LoadBuildClass:
        case Op::LoadAssertionError:
        case Op::LoadMethod:
        case Op::ImportFrom:
        case Op::BeforeWith:
        case Op::WithExceptStart:
        case Op::PushExcInfo:
        case Op::GetLen:
        case Op::MatchMapping:
        case Op::MatchSequence:
        case Op::MatchKeys:
        case Op::ReturnGenerator:
        case Op::GetAnext:
        case Op::BeforeAsyncWith:
            return 1;

        case Op::PopTop:
        case Op::StoreFast:
        case Op::StoreDeref:
        case Op::StoreGlobal:
        case Op::StoreName:
        case Op::DeleteAttr:
        case Op::BinarySubscr:
        case Op::BinaryOp:
        case Op::CompareOp:
        case Op::IsOp:
        case Op::ContainsOp:
        case Op::ListAppend:
        case Op::SetAdd:
        case Op::ListExtend:
        case Op::SetUpdate:
        case Op::DictUpdate:
        case Op::DictMerge:
        case Op::PopJumpIfTrue:
        case Op::PopJumpIfFalse:
        case Op::PopJumpIfNone:
        case Op::PopJumpIfNotNone:
        case Op::SetFunctionAttribute:
        case Op::ReturnValue:
        case Op::ImportName:
        case Op::ImportStar:
        case Op::PrintExpr:
        case Op::PopExcept:
        case Op::PrepReraiseStar:
        case Op::Reraise:
        case Op::EndSend:
        case Op::CleanupThrow:
        case Op::CallIntrinsic2:
            return -1;

        case Op::StoreAttr:
        case Op::DeleteSubscr:
        case Op::BinarySlice:
        case Op::MapAdd:
        case Op::MatchClass:
        case Op::EndAsyncFor:
            return -2;
        case Op::StoreSubscr:
            return -3;
        case Op::StoreSlice:
            return -4;

        case Op::LoadGlobal:
            return 1 + extra;
        case Op::LoadSuperAttr:
            return -2 + (extra & 1);
        case Op::BuildTuple:
        case Op::BuildList:
        case Op::BuildSet:
        case Op::BuildString:
        case Op::BuildSlice:
            return 1 - arg;
        case Op::BuildMap:
            return 1 - 2 * arg;
        case Op::BuildConstKeyMap:
            return -arg;
        case Op::UnpackSequence:
            return arg - 1;
        case Op::UnpackEx:
            return arg + extra;
        case Op::FormatValue:
            return -extra;
        case Op::JumpIfTrueOrPop:
        case Op::JumpIfFalseOrPop:
            return jumps ? 0 : -1;
        case Op::ForIter:
            return jumps ? -1 : 1;
        case Op::Call:
            return -1 - arg;
        case Op::CallKw:
            return -2 - arg;
        case Op::CallFunctionEx:
            return -2 - (arg & 1);
        case Op::MakeFunction:
            return -std::popcount(static_cast<unsigned>(arg));
        case Op::RaiseVarargs:
            return -arg;
        case Op::Send:
            return jumps && !cpython::kDialect.send_keeps_receiver ? -1 : 0;
    }
    return 0;
}

bool falls_through(Op op) {
    switch (op) {
        case Op::Jump:
        case Op::JumpBackward:
        case Op::ReturnValue:
        case Op::ReturnConst:
        case Op::RaiseVarargs:
        case Op::Reraise:
            return false;
        default:
            return true;
    }
}

}  // namespace stator::bytecode
