/// One step of a guard program. For the files of this room only.
#pragma once

#include <Python.h>

#include <cstdint>

namespace stator {

/// What a step does. `from` and `to` are registers; `object` is borrowed from `State::kept`.
enum class StepOp : std::uint8_t {
    // Fetches: register `to` gets the object. The check fails if there is none, or with `absent` if there is one. It
    // also fails if the object in `from` is not of the class that the fetch needs.
    Slot,              // slot `number`
    Function,          // the function of the frame
    HandledException,  // the exception that the thread handles, or None
    Globals,           // of the function `from`
    Builtins,          // of the function `from`
    ClosureCell,       // cell `number` of the function `from`
    CellContents,      // of the cell `from`
    Default,           // positional default `number` of the function `from`
    KeywordDefault,    // keyword-only default `object` of the function `from`
    TupleItem,         // item `number` of the tuple `from`
    ListItem,          // item `number` of the list `from`
    DequeItem,         // item `number` of the deque `from`
    StringItem,        // of the dict `from`, by the exact str `object`; if `from` is empty, of the instance in `number`
    ConstantItem,      // of the dict `from`, by the constant `object`; after SafeKeys
    IdentityItem,      // of the dict `from`, by the key that is `object`
    InstanceDict,      // of the instance `from`, created if needed
    ModuleDict,        // of the Python module `from`
    ClassAttribute,    // `object` along the MRO of the class `from`
    Member,      // the reference at byte `number` of `from`, an instance of the class `object`; `extra` if it is null
    Computed,    // the result of the descriptor `object` for `from`; kept in `computed[number]`
    WalkedOver,  // container `number` of those that the iterator `from` iterates over
    Upcoming,    // what the iterator `from` returns after `version` skipped items; kept in `computed[number]`
    MethodSelf,  // of the bound method `from`
    MethodFunction,  // of the bound method `from`
    Referent,        // of the weak reference `from`

    // Blocks. An Enter has the index of its Leave (`number`), and a Leave that of its Enter. The Enter keeps the dict
    // or class (`object`) and its `version` at the block's last success.
    EnterDict,          // the block of the dict `from`
    EnterInstanceDict,  // `to` = the dict of `from`, empty if the instance has none yet; then its
                        // block
    MakeInstanceDict,   // the same, creating the dict if needed
    LeaveDict,          // of the dict `from`
    EnterClass,         // the block of the class `from`
    LeaveClass,         // of the class `from`
    SafeKeys,           // no key of the dict `from` has a user-defined `__hash__` or `__eq__`

    // Checks of `from`.
    Type,
    Identity,
    Constant,
    FunctionCode,  // a Python function with the code `object` and the globals `extra`
    TupleLength,
    ListLength,
    DequeLength,
    DictLength,
    SetLength,
    NoStringKey,    // as StringItem, nothing found
    NoConstantKey,  // as ConstantItem, nothing found
    NoIdentityKey,  // as IdentityItem, nothing found
    Keys,           // of a dict: the tuple `object`
    OrderedKeys,    // of an OrderedDict: the tuple `object`
    Elements,       // of a set, in the order of its table: the tuple `object`
    Tensor,         // metadata `tensors[number]`
    Autograd,       // autograd's state of a tensor, packed: `number`
    Offset,         // the storage offset of a tensor: `version`
    Subclass,       // of the class `object`, or not (`number`); checked again after a registration (`version`)
    Same,           // the object in register `number`
    Different,      // not the object in register `number`
    Expression,     // `expressions[number]` is true
    AllDistinct,
    Done,
};

struct Step {
    StepOp op;
    bool absent = false;
    bool relied_on = false;  // of an Enter: the quick check assumes that the block is unchanged
    std::int32_t to = -1;
    std::int32_t from = -1;
    std::int32_t number = 0;
    PyObject* object = nullptr;
    union {
        std::uint64_t version = 0;
        PyObject* extra;
    };
};
static_assert(sizeof(Step) == 32, "two steps a cache line");

inline bool is_fetch(StepOp op) {
    return op <= StepOp::MethodFunction;
}

}  // namespace stator
