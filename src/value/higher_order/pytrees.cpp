#include "value/higher_order/pytrees.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// Whether a class is registered as a container: in any other case an instance is a leaf.
bool is_registered(PyTypeObject* type) {
    static PyObject* const registered = imported("torch.utils._pytree", "SUPPORTED_NODES");
    int found = PyDict_Contains(registered, reinterpret_cast<PyObject*>(type));
    if (found < 0) throw PythonError();
    return found == 1;
}

bool walk(Tracer& tracer, Value* value, Leaves& leaves) {
    tracer.realize(value);
    PyTypeObject* type = value->type();
    if (SequenceValue* sequence = as_sequence(value)) {
        const bool is_plain = type == &PyTuple_Type || type == &PyList_Type;
        if (!is_plain && !has_fields(type)) return false;
        leaves.structure += is_plain ? (type == &PyTuple_Type ? "(" : "[") : type_name(type) + "(";
        for (Value* item : sequence->all(tracer))
            if (!walk(tracer, item, leaves)) return false;
        leaves.structure += ")";
        return true;
    }
    if (auto* dict = cast<DictValue>(value)) {
        if (type != &PyDict_Type) return false;
        leaves.structure += "{";
        for (Table::Entry* entry : dict->entries(tracer)) {
            Ref<> key = entry->key->as_constant(tracer);
            if (!key || !PyUnicode_CheckExact(key.get())) return false;
            leaves.structure += std::string(utf8(key.get())) + ":";
            if (!walk(tracer, dict->value_of(tracer, entry), leaves)) return false;
        }
        leaves.structure += "}";
        return true;
    }
    if (is_registered(type)) return false;
    leaves.structure += "*";
    leaves.values.push_back(value);
    return true;
}

}  // namespace

std::optional<Leaves> flatten(Tracer& tracer, Value* value) {
    Leaves leaves;
    if (!walk(tracer, value, leaves)) return std::nullopt;
    return leaves;
}

}  // namespace stator
