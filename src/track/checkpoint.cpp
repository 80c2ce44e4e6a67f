#include "track/checkpoint.h"

#include <optional>

#include "base/boundary.h"
#include "base/names.h"

namespace stator::track {

namespace {

void (*before_checkpoint_call)();
// Never freed: static destructors run after the interpreter is finalized.
Ref<>&plain_frame = *new Ref<>, &watched_frame = *new Ref<>;

PyObject* holder_key() {
    return interned("_CheckpointFrame");
}
/// The birth of a call in its frame: thread and number.
PyObject* birth_key() {
    return interned("_stator_birth");
}

/// PyTorch creates a `_CheckpointFrame` for each call of a checkpointed function. It takes a number as a node would, so
/// that the birth log tells where the call was.
PyObject* make_frame(PyObject*, PyObject* args, PyObject* kwargs) {
    return at_boundary([&] {
        Ref<> frame = checked(PyObject_Call(plain_frame.get(), args, kwargs));
        before_checkpoint_call();
        torch_room::Birth birth = torch_room::take_birth();
        Ref<> pair = checked(Py_BuildValue("KK", static_cast<unsigned long long>(birth.thread),
                                           static_cast<unsigned long long>(birth.number)));
        checked(PyObject_SetAttr(frame.get(), birth_key(), pair.get()));
        return frame;
    });
}

PyMethodDef kMakeFrame = {"_CheckpointFrame", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(make_frame)),
                          METH_VARARGS | METH_KEYWORDS, "As PyTorch's, reported to trackers."};

Ref<> checkpoint_module() {
    return checked(PyImport_ImportModule("torch.utils.checkpoint"));
}

/// The birth in the `_CheckpointFrame` whose unpack hook runs in `hook`.
std::optional<torch_room::Birth> birth_in(const cpython::Frame* hook) {
    ErrorAside aside;
    std::optional<torch_room::Birth> birth;
    Ref<> frame = cpython::enclosed_variable(hook, interned("frame"));
    Ref<> pair = frame ? Ref<>::steal(PyObject_GetAttr(frame.get(), birth_key())) : Ref<>();
    unsigned long long thread, number;
    if (pair && PyArg_ParseTuple(pair.get(), "KK", &thread, &number)) birth = {thread, number};
    PyErr_Clear();
    return birth;
}

/// The call of the function that is recomputed by `frame` or one of its callers.
std::optional<torch_room::Birth> computed_again(const cpython::Frame* frame) {
    static PyObject* const gives_back = interned("unpack_hook");
    static PyObject* const starts_backward = interned("_engine_run_backward");
    for (; frame != nullptr; frame = cpython::caller_of(frame)) {
        PyObject* name = cpython::function_name(frame);
        // Callers of a backward pass are not part of its nodes' work.
        if (name == starts_backward) break;
        if (name != gives_back) continue;
        if (auto birth = birth_in(frame)) return birth;
    }
    return std::nullopt;
}

}  // namespace

void watch_checkpoints(void (*before_call)()) {
    before_checkpoint_call = before_call;
    Ref<> module = checkpoint_module();
    Ref<> frame = Ref<>::steal(PyObject_GetAttr(module.get(), holder_key()));
    if (!frame) {
        PyErr_Clear();  // a PyTorch that implements it differently
        return;
    }
    if (!watched_frame) watched_frame = checked(PyCFunction_NewEx(&kMakeFrame, nullptr, nullptr));
    if (frame != watched_frame) plain_frame = std::move(frame);
    checked(PyObject_SetAttr(module.get(), holder_key(), watched_frame.get()));
}

void stop_watching_checkpoints() {
    ErrorAside aside;
    try {
        Ref<> module = checkpoint_module();
        // Other code may have replaced it by now.
        if (plain_frame && checked(PyObject_GetAttr(module.get(), holder_key())) == watched_frame)
            checked(PyObject_SetAttr(module.get(), holder_key(), plain_frame.get()));
    } catch (const PythonError&) {
        PyErr_Clear();
    }
}

torch_room::RunningNode node_at_work(const cpython::Frame* frame) {
    torch_room::RunningNode node = torch_room::running_node();
    if (node.identity != nullptr)
        if (auto call = computed_again(frame)) node.birth = *call;
    return node;
}

}  // namespace stator::track
