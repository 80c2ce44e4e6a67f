#include "value/protocol/holding.h"

#include "cpython/objects.h"
#include "value/kinds/async_step.h"
#include "value/kinds/class.h"
#include "value/kinds/deque.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/kinds/generator.h"
#include "value/kinds/lazy_iterators.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/kinds/slice.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

class Parts {
  public:
    Parts(const Tracer& tracer, std::vector<const Value*>& held) : tracer_(tracer), held_(held) {}

    void add_of(const Value* value) {
        if (auto* object = as_object(value)) add_attributes(object);
        switch (value->kind) {
            case Kind::Tuple:
            case Kind::List:
                add(static_cast<const SequenceValue*>(value)->items);
                if (auto* list = cast<ListValue>(value); list != nullptr && !list->realized) add(list->appended);
                return;
            case Kind::Deque:
                return add(static_cast<const DequeValue*>(value)->items);
            case Kind::Dict:
                add(static_cast<const DictValue*>(value)->table);
                return add(static_cast<const DictValue*>(value)->default_factory);
            case Kind::Set:
                return add(static_cast<const SetValue*>(value)->table);
            case Kind::DictView:
                return add(static_cast<const DictViewValue*>(value)->dict);
            case Kind::TensorObject:
                return add(static_cast<const TensorObjectValue*>(value)->payload);
            case Kind::Cell:
                return add(static_cast<const CellValue*>(value)->contents);
            case Kind::Method:
                add(static_cast<const MethodValue*>(value)->function);
                return add(static_cast<const MethodValue*>(value)->self);
            case Kind::Super:
                return add(static_cast<const SuperValue*>(value)->self);
            case Kind::Function:
                return add_function(static_cast<const FunctionValue*>(value));
            case Kind::Slice: {
                const auto* slice = static_cast<const SliceValue*>(value);
                add(slice->start);
                add(slice->stop);
                return add(slice->step);
            }
            case Kind::Exception: {
                const auto* exception = static_cast<const ExceptionValue*>(value);
                add(exception->arguments);
                add(exception->made_of.positional);
                add(exception->cause);
                return add(exception->context);
            }
            case Kind::Generator:
                return add_generator(static_cast<const GeneratorValue*>(value));
            case Kind::Iterator:
                return add_iterator(static_cast<const IteratorValue*>(value));
            default:
                return;
        }
    }

  private:
    void add(const Value* value) {
        if (value != nullptr) held_.push_back(value);
    }
    void add(const std::vector<Value*>& values) {
        for (const Value* value : values) add(value);
    }
    void add(const Table& table) {
        for (const Table::Entry& entry : table.all()) {
            if (!entry.live) continue;
            add(entry.key);
            add(entry.value);
        }
    }
    void add_attributes(const ObjectValue* object) {
        for (const auto& [name, value] : object->attributes) add(value);
        add(object->own_dict);
        // Attributes of an outside object are entries of its dict.
        if (object->outside == nullptr) return;
        if (PyObject* dict = cpython::instance_dict_if_made(object->outside).get()) add(tracer_.known(dict));
    }
    void add_function(const FunctionValue* function) {
        for (const CellValue* cell : function->closure) add(cell);
        add(function->defaults);
        for (const Keyword& keyword : function->keyword_defaults) add(keyword.value);
        add(function->annotations);
    }
    void add_generator(const GeneratorValue* generator) {
        add(generator->function);
        add(generator->returned);
        add(generator->handled);
        if (generator->frame == nullptr) return;
        add(generator->frame->held_slots());
        add(generator->frame->held_stack());
    }
    void add_iterator(const IteratorValue* iterator) {
        if (auto* one = dynamic_cast<const AsyncStepValue*>(iterator)) {
            add(one->given);
            return add(one->generator);
        }
        if (auto* one = dynamic_cast<const SequenceIterator*>(iterator)) return add(one->sequence);
        if (auto* one = dynamic_cast<const ReverseIterator*>(iterator)) return add(one->sequence);
        if (auto* one = dynamic_cast<const EnumerateIterator*>(iterator)) return add(one->iterator);
        if (auto* one = dynamic_cast<const ZipIterator*>(iterator)) return add(one->iterators);
        if (auto* one = dynamic_cast<const FilterIterator*>(iterator)) return add(one->iterator);
        if (auto* one = dynamic_cast<const DictIterator*>(iterator)) return add(one->dict);
        if (auto* one = dynamic_cast<const DequeIterator*>(iterator)) return add(one->deque);
        if (auto* one = dynamic_cast<const SetIterator*>(iterator)) return add(one->set);
        if (auto* one = dynamic_cast<const MapIterator*>(iterator)) {
            add(one->function);
            return add(one->iterators);
        }
        if (auto* one = dynamic_cast<const ItemsIterator*>(iterator)) {
            add(one->origin);
            for (std::size_t i = one->position; i < one->items.size(); ++i) add(one->items[i]);
        }
    }

    const Tracer& tracer_;
    std::vector<const Value*>& held_;
};

}  // namespace

void add_held(const Tracer& tracer, const Value* value, std::vector<const Value*>& held) {
    Parts(tracer, held).add_of(value);
}

}  // namespace stator
