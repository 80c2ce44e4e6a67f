#include "value/builtins/numpy.h"

#include <cstring>
#include <string_view>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "guard/numpy_numbers.h"
#include "value/builtins/builtin.h"
#include "value/kinds/sequence.h"
#include "value/tracer.h"

namespace stator {

namespace {

bool has_name(PyTypeObject* type, const char* name) {
    // (Asked at every call of a builtin function: the first letter decides for nearly all.)
    return type->tp_name[0] == name[0] && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 &&
           std::strcmp(type->tp_name, name) == 0;
}

bool is_ufunc(Borrowed<> object) {
    return has_name(Py_TYPE(object.get()), "numpy.ufunc");
}

/// Turns NumPy's warnings about results (overflow, division by zero) into errors during its lifetime.
class RaisingErrors {
  public:
    RaisingErrors() {
        static PyObject* const make = imported("numpy", "errstate");
        Ref<> named = checked(Py_BuildValue("{s:s}", "all", "raise"));
        Ref<> none = checked(PyTuple_New(0));
        state_ = checked(PyObject_Call(make, none.get(), named.get()));
        checked(PyObject_CallMethod(state_.get(), "__enter__", nullptr));
    }
    RaisingErrors(const RaisingErrors&) = delete;
    RaisingErrors& operator=(const RaisingErrors&) = delete;
    ~RaisingErrors() {
        ErrorAside aside;
        Ref<> left = Ref<>::steal(PyObject_CallMethod(state_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
        if (!left) PyErr_Clear();
    }

  private:
    Ref<> state_;
};

bool is_known(PyObject* object) {
    if (!PyTuple_CheckExact(object)) return is_constant(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        if (!is_constant(PyTuple_GET_ITEM(object, i))) return false;
    return true;
}

bool is_of_numpy(Value* value) {
    return value->kind == Kind::Constant && is_numpy_number(value->object());
}

[[noreturn]] void refuse(Tracer& tracer, Value* number) {
    tracer.break_graph(BreakKind::UnsupportedTensor,
                       "an object of type " + type_name(number->type()) + " is an argument of a tensor operation");
}

/// Whether an operand does not define its own behavior with NumPy scalars.
bool is_plain_partner(Value* value) {
    return value->kind == Kind::Constant || value->kind == Kind::Tensor;
}

}  // namespace

bool is_numpy_function(Borrowed<> object) {
    return is_ufunc(object) || has_name(Py_TYPE(object.get()), "numpy._ArrayFunctionDispatcher");
}

Value* fold_in_numpy(Tracer& tracer, Borrowed<> callable, const Arguments& arguments) {
    ConstantArguments constants;
    if (!constants.take(tracer, arguments)) return nullptr;
    Ref<> result;
    {
        RaisingErrors raising;
        result = constants.call(callable);
    }
    if (!result && PyErr_ExceptionMatches(PyExc_FloatingPointError)) {
        PyErr_Clear();
        tracer.break_graph(BreakKind::InputOutput, "a NumPy computation issues a floating-point warning");
    }
    if (!result) tracer.raise_from_python();
    if (!is_known(result.get())) return nullptr;
    return tracer.fresh(std::move(result));
}

Value* call_numpy_function(Tracer& tracer, Borrowed<> function, const Arguments& arguments) {
    if (!is_ufunc(function) && !Handlers::instance().is_pure(function)) return nullptr;
    // The arguments `out` and `dtype` are not constants, so they do not fold.
    return fold_in_numpy(tracer, function, arguments);
}

Value* numpy_binary(Tracer& tracer, BinaryOperator op, ConstantValue* self, Value* other, bool reflected) {
    if (!is_of_numpy(self) && !is_of_numpy(other)) return nullptr;
    if (other->kind == Kind::Tensor || other->kind == Kind::Array) return nullptr;
    Value* answer = nullptr;
    if (is_plain_partner(other))
        answer = fold_in_numpy(tracer, operator_function(op, false),
                               reflected ? Arguments::of(other, static_cast<Value*>(self))
                                         : Arguments::of(static_cast<Value*>(self), other));
    if (answer == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "arithmetic of a NumPy scalar and a " + std::string(other->type()->tp_name));
    return answer;
}

Value* numpy_compare(Tracer& tracer, Comparison op, ConstantValue* self, Value* other) {
    if (!is_of_numpy(self) && !is_of_numpy(other)) return nullptr;
    if (other->kind == Kind::Tensor || other->kind == Kind::Array) return nullptr;
    Value* answer = nullptr;
    if (is_plain_partner(other))
        answer = fold_in_numpy(tracer, operator_function(op), Arguments::of(static_cast<Value*>(self), other));
    if (answer == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "comparison of a NumPy scalar and a " + std::string(other->type()->tp_name));
    return answer;
}

Value* numpy_attribute(Tracer& tracer, ConstantValue* number, Borrowed<> name) {
    Ref<> answer = Ref<>::steal(PyObject_GetAttr(number->held, name));
    if (!answer) tracer.raise_from_python();
    // Each dtype is one immutable object.
    bool is_dtype = name.get() == interned("dtype");
    if (!is_dtype && !is_known(answer.get()))
        tracer.break_graph(BreakKind::UnknownObject,
                           "attribute '" + std::string(utf8(name)) + "' of a NumPy scalar is read");
    return tracer.fresh(std::move(answer));
}

bool is_numpy_dtype(PyTypeObject* type) {
    static PyTypeObject* const found = find_imported_class("numpy", "dtype");
    return found != nullptr && PyType_IsSubtype(type, found);
}

Value* compare_numpy_dtypes(Tracer& tracer, Comparison op, Value* dtype, Value* other) {
    tracer.realize(other);
    const bool is_known = other->kind == Kind::Constant || other->kind == Kind::Class || is_numpy_dtype(other->type());
    if (!is_known || other->object() == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "a numpy dtype is compared with a " + type_name(other->type()));
    for (Value* side : {dtype, other})
        if (side->source != nullptr && side->source->access != Access::Pinned && side->kind == Kind::Object)
            tracer.guard({GuardKind::Identity, side->source, side->object()});
    Ref<> answer = Ref<>::steal(PyObject_RichCompare(dtype->object(), other->object(), static_cast<int>(op)));
    if (!answer) tracer.raise_from_python();
    return tracer.fresh(std::move(answer));
}

Value* plain_operand(Tracer& tracer, Value* value) {
    if (value->kind != Kind::Constant || numpy_number(value->type()) != NumpyNumber::OtherFloat) return value;
    return tracer.fresh(checked(PyFloat_FromDouble(PyFloat_AsDouble(value->object()))));
}

PyObject* plain_number(Tracer& tracer, ConstantValue* number) {
    // PyTorch treats a double as a Python float and an integer as an int. It accepts other NumPy scalars in some places
    // only.
    switch (numpy_number(number->type())) {
        case NumpyNumber::Double:
            return tracer.keep(checked(PyFloat_FromDouble(PyFloat_AS_DOUBLE(number->held))));
        case NumpyNumber::Integer:
            return tracer.keep(checked(PyNumber_Index(number->held)));
        default:
            refuse(tracer, number);
    }
}

void expect_no_numpy_number(Tracer& tracer, Value* value) {
    if (is_of_numpy(value)) refuse(tracer, value);
    if (value->kind != Kind::Tuple && value->kind != Kind::List) return;
    tracer.realize(value);
    auto* sequence = static_cast<SequenceValue*>(value);
    for (std::size_t i = 0; i < sequence->items.size(); ++i) expect_no_numpy_number(tracer, sequence->item(tracer, i));
}

void register_numpy(Handlers& handlers) {
    // Functions that return a number for numbers. Functions that draw random numbers or create arrays are not among
    // them.
    for (const char* name : {"prod", "sum", "mean", "max", "min", "amax", "amin", "round", "around", "isscalar"})
        handlers.add_pure("numpy", name);
    for (const char* name :
         {"dtype", "finfo", "iinfo", "issubdtype", "result_type", "promote_types", "can_cast", "broadcast_shapes"})
        handlers.add_pure("numpy", name);
    for (const char* name : {"float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
                             "uint16", "uint8", "bool_"})
        handlers.add_pure("numpy", name);
    Ref<> generic = find_imported("numpy", "generic");
    for (const char* name : {"item", "tolist", "conjugate", "__int__", "__float__", "__index__", "__bool__"}) {
        if (!generic) break;
        Ref<> method = Ref<>::steal(PyObject_GetAttrString(generic.get(), name));
        if (method) handlers.add_pure(method.get());
        PyErr_Clear();
    }
    PyErr_Clear();
}

}  // namespace stator
