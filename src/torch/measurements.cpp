#include "torch/measurements.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/relu_cpu_dispatch.h>
#include <ATen/ops/sigmoid_cpu_dispatch.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/python_error.h"

namespace stator::torch_room {

namespace {

template <class Kernel>
double time_loop(at::Tensor tensor, std::size_t count, const Kernel& kernel) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) tensor = kernel(tensor);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Unlike a profiler it does not see operators, so that nothing runs in another way because of it.
class MemoryWatch : public c10::MemoryReportingInfoBase {
  public:
    void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
        current_ += size;
        peak = std::max<std::ptrdiff_t>(peak, current_);
    }
    bool memoryProfilingEnabled() const override { return true; }

    std::ptrdiff_t peak = 0;

  private:
    std::ptrdiff_t current_ = 0;
};

}  // namespace

std::ptrdiff_t peak_memory(Borrowed<> call) {
    auto watch = std::make_shared<MemoryWatch>();
    c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, watch);
    checked(PyObject_CallNoArgs(call.get()));
    return watch->peak;
}

double time_kernel(std::string_view name, Borrowed<> first, Borrowed<> second, std::size_t count) {
    const at::Tensor& tensor = THPVariable_Unpack(first.get());
    const at::Tensor& other = THPVariable_Unpack(second.get());
    auto time = [&](const auto& kernel) { return time_loop(tensor, count, kernel); };
    if (name == "add") return time([&](const at::Tensor& x) { return at::cpu::add(x, other); });
    if (name == "mul") return time([&](const at::Tensor& x) { return at::cpu::mul(x, other); });
    if (name == "mm") return time([&](const at::Tensor& x) { return at::cpu::mm(x, other); });
    if (name == "relu") return time([&](const at::Tensor& x) { return at::cpu::relu(x); });
    if (name == "sigmoid") return time([&](const at::Tensor& x) { return at::cpu::sigmoid(x); });
    if (name == "softmax") return time([&](const at::Tensor& x) { return at::cpu::_softmax(x, -1, false); });
    return -1;
}

}  // namespace stator::torch_room
