#include "torch/profiled_region.h"

#include <ATen/record_function.h>
#include <torch/csrc/profiler/api.h>

#include <string>
#include <utility>

#include "base/python_error.h"
#include "base/text.h"

namespace stator::torch_room {

void ProfiledRegion::begin(PyObject* compile_id) {
    if (!at::hasCallbacks() || !torch::profiler::impl::profilerEnabled()) return;
    Ref<> text = Ref<>::steal(PyObject_Str(compile_id));
    PyErr_Clear();
    auto shown = std::make_shared<at::RecordFunction>(at::RecordScope::FUNCTION);
    shown->before("Torch-Compiled Region: " + (text ? std::string(utf8(text.get())) : ""));
    shown_ = std::move(shown);
}

}  // namespace stator::torch_room
