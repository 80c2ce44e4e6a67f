/// Values that a deferred graph reads from outside without using them: an attribute that it reads, changes and puts
/// back, as a context manager does that switches a flag.
///
/// Such a read may give anything when the graph runs, and the graph still computes the same. The program may assign the
/// value to variables and to attributes, and add constants to an int (`self.depth += 1`, later `-= 1`); whatever else
/// it does with it is a use. The same holds for the object with the attribute: the program may read and assign its
/// attributes. Assumed: what takes its place until then has such attributes too, and an int stays an int.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/frame.h"
#include "value/effect_log.h"

namespace stator {

class UnusedReads {
  public:
    /// Called before an instruction. Describes the value that it uses, if it is one of these.
    std::optional<std::string> used_by(const BytecodeFrame& frame, const bytecode::Instruction& instruction);
    /// Called after an instruction: follows the sum of such a value and a constant. `left` is what it was added to.
    void note_sum(const BytecodeFrame& frame, const bytecode::Instruction& instruction, const Value* left);

    /// The object was read from a variable. False if it is not one whose attributes can be followed.
    bool add_object(const Value* object, std::string what);
    /// The attribute of an object from outside was read. False if its value can't be followed. If the graph itself has
    /// assigned it, it is known.
    bool add_attribute(const Value* owner, PyObject* name, const Value* value, std::string what);
    bool contains(const Value* value) const { return reads_.contains(value); }

    /// Whether these side effects are assignments to attributes, each of which has the value again that it had before.
    bool put_back(std::span<const Effect> effects) const;

  private:
    struct Read {
        std::string what;
        const Value* owner = nullptr;  // of an attribute; null for an object
        PyObject* name = nullptr;
        long added = 0;
    };
    std::unordered_map<const Value*, Read> reads_;
    long added_now_ = 0;                                        // by the sum under execution
    std::vector<std::pair<const Value*, PyObject*>> assigned_;  // by the graph itself: an object and an attribute
};

}  // namespace stator
