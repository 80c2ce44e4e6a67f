/// A decoded code object: instructions that are the same for every Python version, with lines, jump targets and
/// handlers.
#pragma once

#include <Python.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "bytecode/instruction.h"
#include "cpython/code_object.h"

namespace stator::bytecode {

/// The handler of exceptions raised in [start, end): continue at `target` with the stack cut to `depth`, then
/// `lasti` pushed (the raising instruction's `offset.unit()` as an `int`) if requested, then the exception.
struct Handler {
    Index start;
    Index end;
    Index target;
    std::int32_t depth;
    bool push_lasti;
};

class Code {
  public:
    /// Throws `PythonError` or `InternalError`. Use `decode`, which does it once.
    explicit Code(PyCodeObject* code);
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;

    PyCodeObject* object() const { return object_; }

    std::span<const Instruction> instructions() const { return instructions_; }
    const Instruction& operator[](Index index) const { return instructions_[index.value]; }
    Index end() const { return {static_cast<std::int32_t>(instructions_.size())}; }
    /// The instruction that the code unit at `offset` belongs to: a prefix, the opcode or one of its caches.
    Index index_at(Offset offset) const;

    std::span<const Handler> handlers() const { return handlers_; }
    /// Null if an exception raised there leaves the frame.
    const Handler* handler_for(Index index) const;

    /// The start of the body: the first `Resume`, after `MakeCell` and `CopyFreeVars`.
    Index body() const { return body_; }

    int slot_count() const { return cpython::slot_count(object_); }
    int stack_size() const { return cpython::stack_size(object_); }
    int local_count() const { return object_->co_nlocals; }
    int cell_count() const { return object_->co_ncellvars; }
    int free_count() const { return object_->co_nfreevars; }
    cpython::SlotKind slot_kind(int slot) const { return cpython::slot_kind(object_, slot); }
    Borrowed<> slot_name(int slot) const { return cpython::slot_name(object_, slot); }
    Borrowed<> name(int index) const { return PyTuple_GET_ITEM(object_->co_names, index); }
    Borrowed<> constant(int index) const { return PyTuple_GET_ITEM(object_->co_consts, index); }

    /// The time that decoding took, returned to the first caller only: later callers did not wait for it.
    double decoding_seconds_for_first_report() const { return std::exchange(decoding_seconds_, 0); }

  private:
    friend class Decoder;

    PyCodeObject* object_;
    mutable double decoding_seconds_ = 0;
    std::vector<Instruction> instructions_;
    std::vector<Handler> handlers_;
    /// The instruction of each code unit.
    std::vector<Index> by_unit_;
    Index body_;
};

/// The decoded form, created on first use and kept as long as the code object. Throws like the constructor.
const Code& decode(PyCodeObject* code);

/// One line: offset, operation, operands in words.
std::string print(const Instruction& instruction, const Code& code);
/// All instructions, with source lines and handlers.
std::string print(const Code& code);

}  // namespace stator::bytecode
