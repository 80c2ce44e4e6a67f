#include "base/check.h"
#include "base/imported.h"
#include "base/python_error.h"
#include "base/short_list.h"
#include "cpython/generators.h"
#include "cpython/hashed_items.h"
#include "cpython/objects.h"
#include "cpython/tracebacks.h"
#include "effect/plan.h"
#include "effect/plan_registers.h"

namespace stator {

namespace {

/// The `__new__` of the nearest base class written in C: Python code of subclasses is not run.
newfunc builtin_new(PyTypeObject* type) {
    static PyObject* const name = PyUnicode_InternFromString("__new__");
    for (; type != nullptr; type = type->tp_base) {
        if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return type->tp_new;
        // A heap class created by C code (most structseqs) has `__new__` as a builtin function.
        PyObject* own = PyDict_GetItemWithError(cpython::class_dict(type), name);
        if (own != nullptr && PyCFunction_Check(own)) return type->tp_new;
    }
    return PyBaseObject_Type.tp_new;
}

Ref<> make_instance(PyTypeObject* type, Borrowed<> arguments) {
    newfunc make = builtin_new(type);
    STATOR_CHECK(make != nullptr, "a class that can't be instantiated");
    return checked(make(type, arguments, nullptr));
}

Ref<> make_instance(PyTypeObject* type) {
    Ref<> nothing = checked(PyTuple_New(0));
    return make_instance(type, nothing);
}

/// A new object with the value of a constant that the program computes in each call.
Ref<> new_constant(PyObject* object) {
    if (PyFloat_CheckExact(object)) return checked(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
    if (PyUnicode_CheckExact(object))
        return checked(PyUnicode_FromKindAndData(static_cast<int>(PyUnicode_KIND(object)), PyUnicode_DATA(object),
                                                 PyUnicode_GET_LENGTH(object)));
    if (PyLong_CheckExact(object)) {
        static PyObject* const zero = PyLong_FromLong(0);
        return checked(PyNumber_Add(object, zero));
    }
    if (PyComplex_CheckExact(object)) return checked(PyComplex_FromCComplex(PyComplex_AsCComplex(object)));
    if (PyRange_Check(object)) {
        Ref<> start = checked(PyObject_GetAttrString(object, "start"));
        Ref<> stop = checked(PyObject_GetAttrString(object, "stop"));
        Ref<> step = checked(PyObject_GetAttrString(object, "step"));
        auto* type = reinterpret_cast<PyObject*>(&PyRange_Type);
        return checked(PyObject_CallFunctionObjArgs(type, start.get(), stop.get(), step.get(), nullptr));
    }
    STATOR_CHECK(PyBytes_CheckExact(object), "a constant of a class that can't be copied");
    return checked(PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)));
}

void set_dict_item(PyObject* dict, PyObject* key, PyObject* value) {
    checked(PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value));
}

void delete_dict_item(PyObject* dict, PyObject* key) {
    checked(PyODict_Check(dict) ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key));
}

void set_item(PyObject* container, PyObject* key, PyObject* value) {
    if (PyDict_Check(container)) {
        value != nullptr ? set_dict_item(container, key, value) : delete_dict_item(container, key);
    } else {
        STATOR_CHECK(PyList_Check(container), "a plan can set items of dicts and lists only");
        checked(PyList_Type.tp_as_mapping->mp_ass_subscript(container, key, value));
    }
}

/// Sets a slot or a C member if the class has one of that name, else the instance's dict. Ignores
/// properties and `__setattr__` of the class.
void set_attribute(PyObject* object, PyObject* name, PyObject* value) {
    if (PyType_Check(object)) {
        checked(PyType_Type.tp_setattro(object, name, value));
        return;
    }
    PyObject* descriptor = cpython::lookup_in_mro(Py_TYPE(object), name);
    bool is_intercepted = descriptor != nullptr && Py_TYPE(descriptor)->tp_descr_set != nullptr &&
                          !Py_IS_TYPE(descriptor, &PyMemberDescr_Type) && !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type);
    if (!is_intercepted) {
        checked(PyObject_GenericSetAttr(object, name, value));
        return;
    }
    PyObject* dict = cpython::instance_dict(object);
    STATOR_CHECK(dict != nullptr, "the instance has no dict");
    checked(value != nullptr ? PyDict_SetItem(dict, name, value) : PyDict_DelItem(dict, name));
}

/// For exact ints and floats, whose operations run no user code.
Ref<> compute(Expression::Op op, PyObject* left, PyObject* right) {
    using Op = Expression::Op;
    if (is_function(op)) {
        PyObject* operands[] = {left, right};
        return checked(PyObject_Vectorcall(python_function(op), operands, takes_two(op) ? 2 : 1, nullptr));
    }
    switch (op) {
        case Op::Add:
            return checked(PyNumber_Add(left, right));
        case Op::Subtract:
            return checked(PyNumber_Subtract(left, right));
        case Op::Multiply:
            return checked(PyNumber_Multiply(left, right));
        case Op::TrueDivide:
            return checked(PyNumber_TrueDivide(left, right));
        case Op::FloorDivide:
            return checked(PyNumber_FloorDivide(left, right));
        case Op::Remainder:
            return checked(PyNumber_Remainder(left, right));
        case Op::Power:
            return checked(PyNumber_Power(left, right, Py_None));
        case Op::LeftShift:
            return checked(PyNumber_Lshift(left, right));
        case Op::RightShift:
            return checked(PyNumber_Rshift(left, right));
        case Op::And:
            return checked(PyNumber_And(left, right));
        case Op::Or:
            return checked(PyNumber_Or(left, right));
        case Op::Xor:
            return checked(PyNumber_Xor(left, right));
        case Op::Negative:
            return checked(PyNumber_Negative(left));
        case Op::Invert:
            return checked(PyNumber_Invert(left));
        default:
            STATOR_CHECK(false, "a plan does not support comparisons");
    }
}

class Executor {
  public:
    Executor(const Plan& plan, std::span<PyObject* const> outputs, std::span<PyObject* const> fetched,
             PlanRegisters& registers, Borrowed<PyFrameObject> entered)
        : plan_(plan), outputs_(outputs), fetched_(fetched), entered_(entered), registers_(registers) {
        registers_.prepare(static_cast<std::size_t>(plan.registers));
    }
    ~Executor() {
        if (!has_open_frames_) registers_.free_last_first();
    }
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    Ref<> run() {
        for (const PlanStep& step : plan_.steps) {
            if (step.op == PlanOp::Return) {
                if (plan_.handled_exception != PlanFrame::kUnchanged)
                    PyErr_SetHandledException(plan_.handled_exception < 0 ? Py_None
                                                                          : registers_[plan_.handled_exception]);
                return registers_.take(step.from[0]);
            }
            if (step.op == PlanOp::Output)
                registers_.fill(step.to, Ref<>::share(outputs_[step.number]));
            else if (step.op == PlanOp::Fetch)
                registers_.fill(step.to, Ref<>::share(fetched_[step.number]));
            else if (step.op == PlanOp::Constant)
                registers_.fill(step.to, step.number == 1 ? new_constant(step.object) : Ref<>::share(step.object));
            else if (step.to >= 0)
                registers_.fill(step.to, make(step));
            else
                change(step);
        }
        has_open_frames_ = true;
        return nullptr;
    }

  private:
    PyObject* from(const PlanStep& step, std::size_t i) const { return registers_[step.from[i]]; }

    Ref<> tuple_of(const PlanStep& step) const {
        Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(step.from.size())));
        for (std::size_t i = 0; i < step.from.size(); ++i)
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(from(step, i)));
        return tuple;
    }

    static PyTypeObject* class_of(const PlanStep& step) { return reinterpret_cast<PyTypeObject*>(step.object); }

    Ref<> make(const PlanStep& step) const {
        switch (step.op) {
            case PlanOp::Tuple:
                return make_tuple(step);
            case PlanOp::List:
                return make_list(step);
            case PlanOp::Dict:
                return make_dict(step);
            case PlanOp::Set:
            case PlanOp::Frozenset:
                return make_set(step);
            case PlanOp::Slice:
                return checked(PySlice_New(from(step, 0), from(step, 1), from(step, 2)));
            case PlanOp::NewObject:
                return make_instance(class_of(step), tuple_of(step));
            case PlanOp::Function:
                return make_function(step);
            case PlanOp::Arithmetic:
                return compute(static_cast<Expression::Op>(step.number), from(step, 0),
                               step.from.size() > 1 ? from(step, 1) : nullptr);
            case PlanOp::Cell:
                return checked(PyCell_New(step.from.empty() ? nullptr : from(step, 0)));
            case PlanOp::Method:
                return checked(PyMethod_New(from(step, 0), from(step, 1)));
            case PlanOp::Generator:
                STATOR_CHECK(PyFunction_Check(from(step, 0)), "a generator needs a function");
                return cpython::make_generator(reinterpret_cast<PyFunctionObject*>(from(step, 0)));
            case PlanOp::Call:
                return call(step);
            case PlanOp::CallNamed:
                return call_named(step);
            case PlanOp::EnteredFrame:
                if (entered_ != nullptr) return Ref<>::share(reinterpret_cast<PyObject*>(entered_.get()));
                [[fallthrough]];
            case PlanOp::Frame:
                return cpython::make_frame_object(reinterpret_cast<PyCodeObject*>(step.object), from(step, 0),
                                                  cpython::Offset{step.number});
            case PlanOp::Traceback:
                STATOR_CHECK(PyFrame_Check(from(step, 0)), "a traceback needs a frame object");
                return cpython::make_traceback(reinterpret_cast<PyFrameObject*>(from(step, 0)),
                                               cpython::Offset{step.number}, from(step, 1));
            default:
                STATOR_CHECK(false, "a plan's step does not create an object");
        }
    }

    Ref<> call(const PlanStep& step) const {
        static PyObject* const next = imported("builtins", "next");
        if (step.object == next && step.from.size() == 2) return next_or(from(step, 0), from(step, 1));
        ShortList<PyObject*, 8> arguments;
        for (std::size_t i = 0; i < step.from.size(); ++i) arguments.push_back(from(step, i));
        return checked(PyObject_Vectorcall(step.object, arguments.begin(), arguments.size(), nullptr));
    }

    /// `next(iterator, otherwise)`: every round of a loop that is entered in its middle advances its iterator.
    static Ref<> next_or(PyObject* iterator, PyObject* otherwise) {
        STATOR_CHECK(PyIter_Check(iterator), "only iterators have a next item");
        if (PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator)) return Ref<>::steal(item);
        if (PyErr_Occurred() != nullptr) {
            if (!PyErr_ExceptionMatches(PyExc_StopIteration)) throw PythonError();
            PyErr_Clear();
        }
        return Ref<>::share(otherwise);
    }

    Ref<> call_named(const PlanStep& step) const {
        std::size_t count = step.from.size() - 1;
        Ref<> positional = checked(PyTuple_GetSlice(tuple_of(step).get(), 0, static_cast<Py_ssize_t>(count)));
        return checked(PyObject_Call(step.object, positional.get(), from(step, count)));
    }

    Ref<> make_tuple(const PlanStep& step) const {
        Ref<> items = tuple_of(step);
        if (step.object == nullptr || class_of(step) == &PyTuple_Type) return items;
        Ref<> arguments = checked(PyTuple_Pack(1, items.get()));
        return make_instance(class_of(step), arguments);
    }

    Ref<> make_list(const PlanStep& step) const {
        if (step.object == nullptr || class_of(step) == &PyList_Type) {
            Ref<> list = checked(PyList_New(static_cast<Py_ssize_t>(step.from.size())));
            for (std::size_t i = 0; i < step.from.size(); ++i)
                PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(from(step, i)));
            return list;
        }
        Ref<> list = make_instance(class_of(step));
        for (std::size_t i = 0; i < step.from.size(); ++i) checked(PyList_Append(list.get(), from(step, i)));
        return list;
    }

    Ref<> make_dict(const PlanStep& step) const {
        Ref<> dict = step.object == nullptr || class_of(step) == &PyDict_Type ? checked(PyDict_New())
                                                                              : make_instance(class_of(step));
        for (std::size_t i = 0; i < step.from.size(); i += 2)
            set_dict_item(dict.get(), from(step, i), from(step, i + 1));
        return dict;
    }

    Ref<> make_set(const PlanStep& step) const {
        bool is_frozen = step.op == PlanOp::Frozenset;
        PyTypeObject* plain = is_frozen ? &PyFrozenSet_Type : &PySet_Type;
        PyTypeObject* type = step.object == nullptr ? plain : class_of(step);
        // A frozenset gets its elements when it is created.
        if (is_frozen) {
            Ref<> arguments = checked(PyTuple_Pack(1, tuple_of(step).get()));
            return make_instance(type, arguments);
        }
        Ref<> set = type == plain ? checked(PySet_New(nullptr)) : make_instance(type);
        for (std::size_t i = 0; i < step.from.size(); ++i) checked(PySet_Add(set.get(), from(step, i)));
        return set;
    }

    Ref<> make_function(const PlanStep& step) const {
        Ref<> function = checked(PyFunction_New(step.object, from(step, 0)));
        PyObject* made = function.get();
        if (PyObject* name = from(step, 1)) set_function_name(made, name);
        if (PyObject* defaults = from(step, 2)) checked(PyFunction_SetDefaults(made, defaults));
        if (PyObject* defaults = from(step, 3)) checked(PyFunction_SetKwDefaults(made, defaults));
        if (PyObject* closure = from(step, 4)) checked(PyFunction_SetClosure(made, closure));
        if (PyObject* annotations = from(step, 5)) checked(PyFunction_SetAnnotations(made, annotations));
        return function;
    }

    static void set_function_name(PyObject* function, PyObject* value) {
        static PyObject* const name = PyUnicode_InternFromString("__name__");
        checked(PyObject_GenericSetAttr(function, name, value));
    }

    void fill_generator(const PlanStep& step) const {
        std::vector<PyObject*> held;
        for (std::size_t i = 2; i < step.from.size(); ++i) held.push_back(from(step, i));
        auto slots = static_cast<std::size_t>(cpython::generator_code(from(step, 0))->co_nlocalsplus);
        STATOR_CHECK(slots <= held.size(), "the generator has more slots");
        std::span<PyObject* const> all = held;
        cpython::fill_generator(from(step, 0), {.slots = all.first(slots),
                                                .stack = all.subspan(slots),
                                                .handled = from(step, 1),
                                                .yielded = cpython::Offset{step.number}});
    }

    void change(const PlanStep& step) const {
        switch (step.op) {
            case PlanOp::SetAttribute:
                return set_attribute(from(step, 0), step.object, from(step, 1));
            case PlanOp::SetItem:
                if (step.object != nullptr) {
                    STATOR_CHECK(PyDict_Check(from(step, 0)), "only dicts support insertion with a given hash");
                    checked(cpython::set_item_by_hash(from(step, 0), from(step, 1), from(step, 2),
                                                      PyLong_AsSsize_t(step.object)));
                    return;
                }
                return set_item(from(step, 0), from(step, 1), from(step, 2));
            case PlanOp::Append:
                STATOR_CHECK(PyList_Check(from(step, 0)), "a plan can append only to lists");
                checked(PyList_Append(from(step, 0), from(step, 1)));
                return;
            case PlanOp::Add:
                STATOR_CHECK(PySet_Check(from(step, 0)), "a plan can add only to sets");
                checked(PySet_Add(from(step, 0), from(step, 1)));
                return;
            case PlanOp::SetCell:
                STATOR_CHECK(PyCell_Check(from(step, 0)), "not a cell");
                checked(PyCell_Set(from(step, 0), from(step, 1)));
                return;
            case PlanOp::FillGenerator:
                return fill_generator(step);
            case PlanOp::EndGenerator:
                return cpython::finish_generator(from(step, 0));
            default:
                STATOR_CHECK(false, "a plan's step is not a mutation");
        }
    }

    const Plan& plan_;
    std::span<PyObject*const> outputs_, fetched_;
    Borrowed<PyFrameObject> entered_;
    PlanRegisters& registers_;
    bool has_open_frames_ = false;
};

}  // namespace

Ref<> run(const Plan& plan, std::span<PyObject* const> outputs, std::span<PyObject* const> fetched,
          PlanRegisters& registers, Borrowed<PyFrameObject> entered) {
    auto part = [&](const Plan::Part& part) {
        if (part.op == PlanOp::Output) return Py_NewRef(outputs[part.number]);
        if (part.op == PlanOp::Fetch) return Py_NewRef(fetched[part.number]);
        return part.number == 1 ? new_constant(part.object).release() : Py_NewRef(part.object);
    };
    switch (plan.shape) {
        case Plan::Shape::OnePart:
            return Ref<>::steal(part(plan.parts[0]));
        case Plan::Shape::TupleOfParts: {
            Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(plan.parts.size())));
            for (std::size_t i = 0; i < plan.parts.size(); ++i)
                PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), part(plan.parts[i]));
            return tuple;
        }
        case Plan::Shape::General:
            break;
    }
    return Executor(plan, outputs, fetched, registers, entered).run();
}

}  // namespace stator
