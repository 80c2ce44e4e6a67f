#include "value/protocol/reachable.h"

#include <unordered_set>

#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

class Walk {
  public:
    explicit Walk(std::vector<const Value*> roots) : waiting_(std::move(roots)) {}

    std::optional<std::vector<const Value*>> run() {
        while (!waiting_.empty()) {
            const Value* value = waiting_.back();
            waiting_.pop_back();
            if (value == nullptr || value->source != nullptr || !seen_.insert(value).second) continue;
            found_.push_back(value);
            if (!look_into(value)) return std::nullopt;
        }
        return std::move(found_);
    }

  private:
    void hold(const Value* value) {
        found_.push_back(value);
        waiting_.push_back(value);
    }
    void hold(const Table& table) {
        for (const Table::Entry& entry : table.all()) {
            if (!entry.live) continue;
            hold(entry.key);
            hold(entry.value);
        }
    }
    void hold_attributes(const ObjectValue* object) {
        for (const auto& [name, value] : object->attributes) hold(value);
        hold(object->own_dict);
    }

    bool look_into(const Value* value) {
        switch (value->kind) {
            case Kind::Constant:
            case Kind::Tensor:
            case Kind::Array:
            case Kind::Class:
            case Kind::Builtin:
            case Kind::PythonModule:
            case Kind::Null:
            case Kind::Context:
                return true;
            case Kind::Tuple:
            case Kind::List: {
                const auto* sequence = static_cast<const SequenceValue*>(value);
                for (const Value* item : sequence->items) hold(item);
                hold_attributes(sequence);
                return true;
            }
            case Kind::Dict:
                hold(static_cast<const DictValue*>(value)->table);
                hold(static_cast<const DictValue*>(value)->default_factory);
                hold_attributes(static_cast<const DictValue*>(value));
                return true;
            case Kind::TensorObject:
                hold(static_cast<const TensorObjectValue*>(value)->payload);
                hold_attributes(static_cast<const ObjectValue*>(value));
                return true;
            case Kind::Object:
            case Kind::Scalar:
                hold_attributes(static_cast<const ObjectValue*>(value));
                return true;
            case Kind::Cell:
                hold(static_cast<const CellValue*>(value)->contents);
                return true;
            case Kind::Method:
                hold(static_cast<const MethodValue*>(value)->function);
                hold(static_cast<const MethodValue*>(value)->self);
                return true;
            case Kind::Function: {
                const auto* function = static_cast<const FunctionValue*>(value);
                for (const CellValue* cell : function->closure) hold(cell);
                for (const Value* one : function->defaults) hold(one);
                for (const Keyword& keyword : function->keyword_defaults) hold(keyword.value);
                hold_attributes(function);
                return true;
            }
            case Kind::Slice: {
                const auto* slice = static_cast<const SliceValue*>(value);
                hold(slice->start);
                hold(slice->stop);
                hold(slice->step);
                return true;
            }
            default:
                return false;
        }
    }

    std::vector<const Value*> waiting_, found_;
    std::unordered_set<const Value*> seen_;
};

}  // namespace

std::optional<std::vector<const Value*>> reachable(std::vector<const Value*> roots) {
    return Walk(std::move(roots)).run();
}

}  // namespace stator
