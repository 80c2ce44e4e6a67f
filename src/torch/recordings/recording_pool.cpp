#include "torch/recordings/recording_pool.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <map>

#include "base/imported.h"
#include "base/python_error.h"
#include "torch/errors.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

/// Those that tests have set.
std::map<c10::DeviceType, Ref<>>& set_recorders() {
    static auto* const recorders = new std::map<c10::DeviceType, Ref<>>();
    return *recorders;
}

Ref<> recorder_of(c10::DeviceType type) {
    auto found = set_recorders().find(type);
    if (found != set_recorders().end()) return Ref<>::share(found->second.get());
    static PyObject* const cuda = imported("stator.cuda_graphs", "recorder");
    return Ref<>::share(cuda);
}

}  // namespace

bool has_recorder(std::int8_t device_type) {
    const auto type = static_cast<c10::DeviceType>(device_type);
    return type == c10::DeviceType::CUDA || set_recorders().contains(type);
}

bool is_on_recording_device(Borrowed<> object) {
    return is_tensor(object) &&
           has_recorder(static_cast<std::int8_t>(THPVariable_Unpack(object.get()).device().type()));
}

void set_recorder(const char* device_type, Borrowed<> recorder) {
    const c10::DeviceType type = c10::Device(device_type).type();
    if (recorder.get() == Py_None)
        set_recorders().erase(type);
    else
        set_recorders()[type] = Ref<>::share(recorder);
}

c10::Device unpacked_device(std::int32_t packed) {
    return {static_cast<c10::DeviceType>(packed >> 8), static_cast<c10::DeviceIndex>(packed & 0xff)};
}

RecordingPool::RecordingPool(std::int32_t device, bool overwrites_results)
    : recorder_(recorder_of(unpacked_device(device).type())),
      is_capturing_(checked(PyObject_GetAttrString(recorder_.get(), "is_capturing"))),
      device_(device),
      overwrites_results_(overwrites_results),
      streams_(std::make_unique<Streams>()) {}

RecordingPool::~RecordingPool() = default;

bool RecordingPool::is_recorded_by_program() const {
    return checked(PyObject_IsTrue(checked(PyObject_CallNoArgs(is_capturing_.get())).get())) != 0;
}

namespace {

std::int64_t as_number(const Ref<>& answer) {
    const long long number = PyLong_AsLongLong(answer.get());
    if (number == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    return number;
}

}  // namespace

std::int64_t RecordingPool::limit() const {
    return as_number(checked(PyObject_CallMethod(recorder_.get(), "limit", "i", device_ & 0xff)));
}

std::int64_t RecordingPool::current_step() const {
    return as_number(checked(PyObject_CallMethod(recorder_.get(), "current_step", nullptr)));
}

void RecordingPool::Streams::enter(c10::Device device) {
    if (device.is_cpu() || !last_end) return;
    const c10::Stream now = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    if (now != *last) last_end->block(now);
}

void RecordingPool::Streams::leave(c10::Device device) {
    if (device.is_cpu()) return;
    if (!last_end) last_end.emplace(device.type());
    last = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    last_end->record(*last);
}

}  // namespace stator::torch_room
