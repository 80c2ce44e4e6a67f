// Decodes CPython's code units to instructions: prefixes and caches are removed, and the opcodes of every version
// become those of opcodes.def.
#include <limits>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/python_error.h"
#include "base/stopwatch.h"
#include "bytecode/code.h"
#include "cpython/opcodes.h"

namespace stator::bytecode {

using cpython::CodeUnit;
using cpython::kDialect;
using cpython::RealOp;

/// Fills a `Code`. Jump targets are kept as offsets in `arg` until every instruction has its index.
class Decoder {
  public:
    explicit Decoder(Code& code) : code_(code), units_(cpython::code_units(code.object_)) {}

    void run() {
        code_.instructions_.reserve(units_.size() / 2 + 1);
        code_.by_unit_.resize(units_.size());
        read_units();
        resolve_jumps();
        number_lines();
        read_handlers();
        code_.body_ = code_.index_at(cpython::body_start(code_.object_));
    }

  private:
    void read_units();
    void emit(RealOp real, std::int32_t arg);
    void emit_intrinsic(bool takes_two, std::int32_t arg);
    void resolve_jumps();
    void number_lines();
    void read_handlers();

    void add(Op op, std::int32_t arg = 0, std::int32_t extra = 0) {
        Instruction& added = code_.instructions_.emplace_back();
        added.op = op;
        added.arg = arg;
        added.extra = extra;
        added.start = start_;
        added.offset = offset_;
        added.next_offset = next_offset_;
    }
    /// One opcode that is decoded as two instructions, with a slot in each half of its argument.
    void add_two(Op first, Op second, std::int32_t arg) {
        add(first, arg >> 4);
        add_second(second, arg & 15);
    }
    void add_second(Op op, std::int32_t arg = 0) {
        add(op, arg);
        code_.instructions_.back().can_resume = false;
    }
    void add_jump(Op op, std::int32_t units) {
        add(op, next_offset_.value + 2 * units);
        code_.instructions_.back().target = kUnresolved;
    }

    static constexpr Index kUnresolved{std::numeric_limits<std::int32_t>::max()};
    static constexpr std::int32_t kNoNames = -1;

    Code& code_;
    std::span<const CodeUnit> units_;
    Offset start_, offset_, next_offset_;
    /// From a KW_NAMES whose CALL is still to come.
    std::int32_t keyword_names_ = kNoNames;
};

void Decoder::read_units() {
    const int count = static_cast<int>(units_.size());
    int unit = 0;
    std::int32_t arg = 0;
    int start = 0;
    while (unit < count) {
        const CodeUnit read = units_[unit];
        const RealOp real = cpython::real_op(read.opcode);
        const int next = unit + 1 + cpython::cache_units(read.opcode);
        const Index index = code_.end();
        for (int covered = unit; covered < next && covered < count; ++covered) code_.by_unit_[covered] = index;
        arg = static_cast<std::int32_t>(static_cast<std::uint32_t>(arg) << 8 | read.arg);
        if (real == RealOp::ExtendedArg) {
            unit = next;
            continue;
        }
        start_ = Offset::of_unit(start);
        offset_ = Offset::of_unit(unit);
        next_offset_ = Offset::of_unit(next);
        STATOR_CHECK(real != RealOp::Unknown, "unknown opcode " + std::to_string(read.opcode));
        // KW_NAMES and PRECALL are part of the call, which starts there.
        const bool is_prefix = real == RealOp::KwNames || real == RealOp::Precall;
        if (real == RealOp::KwNames) keyword_names_ = arg;
        if (!is_prefix) {
            emit(real, arg);
            start = next;
        }
        arg = 0;
        unit = next;
    }
}

void Decoder::emit(RealOp real, std::int32_t arg) {
    switch (real) {
        // Operations that differ between versions, or whose argument has parts.
        case RealOp::LoadFast:
            return add(kDialect.load_fast_checks ? Op::LoadFastCheck : Op::LoadFast, arg);
        case RealOp::LoadClosure:
            return add(Op::LoadFast, arg);
        case RealOp::LoadFastLoadFast:
            return add_two(Op::LoadFast, Op::LoadFast, arg);
        case RealOp::StoreFastLoadFast:
            return add_two(Op::StoreFast, Op::LoadFast, arg);
        case RealOp::StoreFastStoreFast:
            return add_two(Op::StoreFast, Op::StoreFast, arg);
        case RealOp::LoadGlobal:
            return add(Op::LoadGlobal, arg >> 1, arg & 1);
        case RealOp::LoadAttr:
            if (!kDialect.load_attr_has_method_bit) return add(Op::LoadAttr, arg);
            return add((arg & 1) != 0 ? Op::LoadMethod : Op::LoadAttr, arg >> 1);
        case RealOp::LoadSuperAttr:
            return add(Op::LoadSuperAttr, arg >> 2, arg & 3);
        case RealOp::CompareOp:
            // Two instructions: a comparison of tensors is captured, its conversion to bool breaks the graph.
            add(Op::CompareOp, arg >> kDialect.compare_shift);
            if ((arg & kDialect.compare_to_bool_bit) != 0) add_second(Op::ToBool);
            return;
        case RealOp::UnpackEx:
            return add(Op::UnpackEx, arg & 0xFF, arg >> 8);
        case RealOp::FormatValue:
            return add(Op::FormatValue, arg & 3, (arg & 4) != 0);
        case RealOp::FormatSimple:
            return add(Op::FormatValue, 0, 0);
        case RealOp::FormatWithSpec:
            return add(Op::FormatValue, 0, 1);
        case RealOp::Call:
            add(Op::Call, arg, keyword_names_);
            keyword_names_ = kNoNames;
            return;
        case RealOp::CallIntrinsic1:
            return emit_intrinsic(false, arg);
        case RealOp::CallIntrinsic2:
            return emit_intrinsic(true, arg);

        // Jumps, the argument in code units from the next instruction.
        case RealOp::JumpForward:
            return add_jump(Op::Jump, arg);
        case RealOp::JumpBackwardNoInterrupt:
            return add_jump(Op::Jump, -arg);
        case RealOp::JumpBackward:
            return add_jump(Op::JumpBackward, -arg);
        case RealOp::PopJumpIfTrue:
        case RealOp::PopJumpForwardIfTrue:
            return add_jump(Op::PopJumpIfTrue, arg);
        case RealOp::PopJumpBackwardIfTrue:
            return add_jump(Op::PopJumpIfTrue, -arg);
        case RealOp::PopJumpIfFalse:
        case RealOp::PopJumpForwardIfFalse:
            return add_jump(Op::PopJumpIfFalse, arg);
        case RealOp::PopJumpBackwardIfFalse:
            return add_jump(Op::PopJumpIfFalse, -arg);
        case RealOp::PopJumpIfNone:
        case RealOp::PopJumpForwardIfNone:
            return add_jump(Op::PopJumpIfNone, arg);
        case RealOp::PopJumpBackwardIfNone:
            return add_jump(Op::PopJumpIfNone, -arg);
        case RealOp::PopJumpIfNotNone:
        case RealOp::PopJumpForwardIfNotNone:
            return add_jump(Op::PopJumpIfNotNone, arg);
        case RealOp::PopJumpBackwardIfNotNone:
            return add_jump(Op::PopJumpIfNotNone, -arg);
        case RealOp::JumpIfTrueOrPop:
            return add_jump(Op::JumpIfTrueOrPop, arg);
        case RealOp::JumpIfFalseOrPop:
            return add_jump(Op::JumpIfFalseOrPop, arg);
        case RealOp::ForIter:
            return add_jump(Op::ForIter, arg + kDialect.for_iter_skips);
        case RealOp::Send:
            return add_jump(Op::Send, arg);

#define SAME(name)     \
    case RealOp::name: \
        return add(Op::name, arg);
            SAME(AsyncGenWrap)
            SAME(BeforeAsyncWith)
            SAME(BeforeWith)
            SAME(BinaryOp)
            SAME(BinarySlice)
            SAME(BinarySubscr)
            SAME(BuildConstKeyMap)
            SAME(BuildList)
            SAME(BuildMap)
            SAME(BuildSet)
            SAME(BuildSlice)
            SAME(BuildString)
            SAME(BuildTuple)
            SAME(CallFunctionEx)
            SAME(CallKw)
            SAME(CheckEgMatch)
            SAME(CheckExcMatch)
            SAME(CleanupThrow)
            SAME(ContainsOp)
            SAME(ConvertValue)
            SAME(Copy)
            SAME(CopyFreeVars)
            SAME(DeleteAttr)
            SAME(DeleteDeref)
            SAME(DeleteFast)
            SAME(DeleteGlobal)
            SAME(DeleteName)
            SAME(DeleteSubscr)
            SAME(DictMerge)
            SAME(DictUpdate)
            SAME(EndAsyncFor)
            SAME(EndFor)
            SAME(EndSend)
            SAME(GetAiter)
            SAME(GetAnext)
            SAME(GetAwaitable)
            SAME(GetIter)
            SAME(GetLen)
            SAME(GetYieldFromIter)
            SAME(ImportFrom)
            SAME(ImportName)
            SAME(ImportStar)
            SAME(IsOp)
            SAME(ListAppend)
            SAME(ListExtend)
            SAME(ListToTuple)
            SAME(LoadAssertionError)
            SAME(LoadBuildClass)
            SAME(LoadConst)
            SAME(LoadDeref)
            SAME(LoadFastAndClear)
            SAME(LoadFastCheck)
            SAME(LoadFromDictOrDeref)
            SAME(LoadFromDictOrGlobals)
            SAME(LoadLocals)
            SAME(LoadMethod)
            SAME(LoadName)
            SAME(MakeCell)
            SAME(MakeFunction)
            SAME(MapAdd)
            SAME(MatchClass)
            SAME(MatchKeys)
            SAME(MatchMapping)
            SAME(MatchSequence)
            SAME(Nop)
            SAME(PopExcept)
            SAME(PopTop)
            SAME(PrepReraiseStar)
            SAME(PrintExpr)
            SAME(PushExcInfo)
            SAME(PushNull)
            SAME(RaiseVarargs)
            SAME(Reraise)
            SAME(Resume)
            SAME(ReturnConst)
            SAME(ReturnGenerator)
            SAME(ReturnValue)
            SAME(SetAdd)
            SAME(SetFunctionAttribute)
            SAME(SetUpdate)
            SAME(SetupAnnotations)
            SAME(StoreAttr)
            SAME(StoreDeref)
            SAME(StoreFast)
            SAME(StoreGlobal)
            SAME(StoreName)
            SAME(StoreSlice)
            SAME(StoreSubscr)
            SAME(Swap)
            SAME(ToBool)
            SAME(UnaryInvert)
            SAME(UnaryNegative)
            SAME(UnaryNot)
            SAME(UnaryPositive)
            SAME(UnpackSequence)
            SAME(WithExceptStart)
            SAME(YieldValue)
#undef SAME
        case RealOp::LoadClassderef:
            return add(Op::LoadClassDeref, arg);

        case RealOp::ExtendedArg:
        case RealOp::KwNames:
        case RealOp::Precall:
        case RealOp::Unknown:
            break;
    }
    STATOR_CHECK(false, std::string("an opcode that is only part of an instruction: ") + cpython::name_of(real));
}

/// Opcodes of 3.11 that became numbered intrinsics in 3.12. Those with the same stack effect keep their names.
void Decoder::emit_intrinsic(bool takes_two, std::int32_t arg) {
    enum One { kAsyncGenWrap = 4, kUnaryPositive = 5, kListToTuple = 6 };
    enum Two { kPrepReraiseStar = 1 };
    if (takes_two) return arg == kPrepReraiseStar ? add(Op::PrepReraiseStar) : add(Op::CallIntrinsic2, arg);
    if (arg == kAsyncGenWrap) return add(Op::AsyncGenWrap);
    if (arg == kUnaryPositive) return add(Op::UnaryPositive);
    if (arg == kListToTuple) return add(Op::ListToTuple);
    add(Op::CallIntrinsic1, arg);
}

void Decoder::resolve_jumps() {
    for (Instruction& instruction : code_.instructions_) {
        if (instruction.target != kUnresolved) continue;
        instruction.target = code_.index_at(Offset{instruction.arg});
        instruction.arg = 0;
    }
}

void Decoder::number_lines() {
    auto lines = cpython::line_table(code_.object_);
    auto range = lines.begin();
    for (Instruction& instruction : code_.instructions_) {
        while (range != lines.end() && range->end <= instruction.offset) ++range;
        if (range == lines.end()) return;
        instruction.line = range->line;
    }
}

void Decoder::read_handlers() {
    for (const cpython::HandlerRange& range : cpython::exception_table(code_.object_)) {
        Index start = code_.index_at(range.start);
        Index end = range.end.unit() < static_cast<int>(units_.size()) ? code_.index_at(range.end) : code_.end();
        for (Index index = start; index < end; index = index.next())
            code_.instructions_[index.value].handler = static_cast<std::int32_t>(code_.handlers_.size());
        code_.handlers_.push_back({start, end, code_.index_at(range.target), range.depth, range.push_lasti});
    }
}

Code::Code(PyCodeObject* code) : object_(code) {
    Stopwatch watch;
    Decoder(*this).run();
    decoding_seconds_ = watch.lap();
}

const Code& decode(PyCodeObject* code) {
    cpython::CodeExtra& extra = cpython::extra_of(code);
    if (extra.decoded.object == nullptr) [[unlikely]] {
        auto decoded = std::make_unique<Code>(code);
        // An allocation may have triggered a garbage collection, whose finalizers may have decoded this code object.
        if (extra.decoded.object == nullptr)
            extra.decoded = {decoded.release(), [](void* decoded) { delete static_cast<Code*>(decoded); }};
    }
    return *static_cast<const Code*>(extra.decoded.object);
}

}  // namespace stator::bytecode
