#include "shape/compliance.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "shape/fake_call.h"
#include "torch/fake.h"

namespace stator::shape {

namespace {

/// Whether the program has turned the setting on. TorchDynamo's settings are there only if it was imported.
bool allows_compliant_only() {
    Ref<> name = checked(PyUnicode_FromString("torch._dynamo.config"));
    Ref<> settings = Ref<>::steal(PyImport_GetModule(name.get()));
    Ref<> value =
        settings ? Ref<>::steal(PyObject_GetAttrString(settings.get(), "only_allow_pt2_compliant_ops")) : Ref<>();
    const bool is_on = value && PyObject_IsTrue(value.get()) == 1;
    PyErr_Clear();
    return is_on;
}

bool is_compliant(Borrowed<> overload) {
    static PyObject* const tag = imported("torch", "Tag.pt2_compliant_tag");
    Ref<> tags = checked(PyObject_GetAttrString(overload, "tags"));
    return PySequence_Contains(tags.get(), tag) == 1;
}

/// The overload of a packet that takes these arguments. Throws PythonError if none does.
Ref<> resolved(const Question& question, Borrowed<> packet) {
    static PyObject* const resolve = imported("torch._C", "_jit_resolve_packet");
    static PyObject* const partial = imported("functools", "partial");
    Ref<> overloads = checked(PyObject_CallMethod(packet, "overloads", nullptr));
    Ref<> name = Ref<>::share(PyList_Size(overloads.get()) == 1 ? PyList_GET_ITEM(overloads.get(), 0) : nullptr);
    if (!name) {
        Ref<> qualified = checked(PyObject_GetAttrString(packet, "_qualified_op_name"));
        Ref<> resolver = checked(PyObject_CallFunctionObjArgs(partial, resolve, qualified.get(), nullptr));
        Question asked = question;
        asked.target = resolver.get();
        torch_room::OperationEffects effects;
        name = FakeCall(torch_room::fake_mode_of_thread(), asked).run(asked, &effects);
    }
    return checked(PyObject_GetAttr(packet, name.get()));
}

}  // namespace

std::string reason_to_refuse(const Question& question) {
    static PyTypeObject* const packet_class = find_imported_class("torch._ops", "OpOverloadPacket");
    static PyTypeObject* const overload_class = find_imported_class("torch._ops", "OpOverload");
    if (question.kind != graph::NodeKind::Function) return "";
    PyTypeObject* const type = Py_TYPE(question.target.get());
    if ((type != packet_class && type != overload_class) || !allows_compliant_only()) return "";
    try {
        Ref<> overload =
            type == overload_class ? Ref<>::share(question.target.get()) : resolved(question, question.target);
        if (is_compliant(overload.get())) return "";
        return "the operator " + std::string(utf8(checked(PyObject_Str(overload.get())).get())) +
               " is not PT2 compliant, and torch._dynamo.config.only_allow_pt2_compliant_ops is set";
    } catch (const PythonError&) {
        TakenError error = TakenError::take();
        Ref<> text = checked(PyObject_Str(error.exception()));
        return "an operator can't be resolved: " + std::string(utf8(text.get()));
    }
}

}  // namespace stator::shape
