/// One step of a guard program. For the files of this room only.
#pragma once

#include <Python.h>

#include <cstdint>

namespace stator {

/// What a step does. `from` and `to` are registers; `object` is borrowed from `State::kept`.
enum class StepOp : std::uint8_t {
    // Fetches: register `to` gets what was found. Nothing found is a failure, unless the step says `absent`: then
    // something found is. Where the object in `from` is not of the kind the fetch needs, the check fails.
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
    StringItem,    // of the dict `from`, by the exact str `object`; where `from` is empty, of the instance in `number`
    ConstantItem,  // of the dict `from`, by the constant `object`; after SafeKeys
    IdentityItem,  // of the dict `from`, by the key that is `object`
    InstanceDict,  // of the instance `from`, made if need be
    ModuleDict,    // of the Python module `from`
    ClassAttribute,  // `object` along the MRO of the class `from`
    Member,      // the reference at byte `number` of `from`, an instance of the class `object`; `extra` if it is null
    Computed,    // what the descriptor `object` gives for `from`; kept in `computed[number]`
    WalkedOver,  // container `number` of those that the iterator `from` walks over
    Upcoming,    // what the iterator `from` gives by `version` more than one steps; kept in `computed[number]`
    MethodSelf,  // of the bound method `from`
    MethodFunction,  // of the bound method `from`
    Referent,        // of the weak reference `from`

    // Blocks. An Enter knows its Leave by index (`number`), and a Leave its Enter. The Enter keeps the dict or class
    // (`object`) and its `version` as of the block's last success.
    EnterDict,          // the block of the dict `from`
    EnterInstanceDict,  // `to` = the dict of `from`, empty where the instance keeps its attributes without; then its
                        // block
    MakeInstanceDict,   // the same, with the dict made if need be
    LeaveDict,          // of the dict `from`
    EnterClass,         // the block of the class `from`
    LeaveClass,         // of the class `from`
    SafeKeys,           // no key of the dict `from` has a `__hash__` or `__eq__` of its own

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
    Offset,         // of a tensor in its memory: `version`
    Subclass,       // of the class `object`, or not (`number`); asked again where `version`, a token, has passed
    Same,           // the object in register `number`
    Different,      // not the object in register `number`
    Expression,     // `expressions[number]` is true
    AllDistinct,
    Done,
};

struct Step {
    StepOp op;
    bool absent = false;
    bool relied_on = false;  // of an Enter: the quick check takes the block for unchanged
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
