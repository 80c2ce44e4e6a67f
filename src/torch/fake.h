/// Creates FakeTensors directly from metadata.
///
/// PyTorch's own way from a real tensor to a fake one (`FakeTensorConverter`) takes 100 us or more: it describes the
/// tensor in Python, makes a meta tensor through the dispatcher and checks the result. The result is a tensor on
/// the meta device of class `FakeTensor`, with the backend keys of the fake device, whose `device` is
/// a Python property, and whose `__dict__` holds the mode, the device and a few empty memos. This is created here
/// directly. The contents of the `__dict__` are copied from a tensor that `FakeTensor`'s own constructor made, so that
/// attributes which a version of PyTorch adds are there too.
#pragma once

#include <functional>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// A new `FakeTensorMode` without symbolic shapes, as backends expect one in their tracing context.
Ref<> new_fake_mode();

/// The mode that shape inference uses in this thread, created on first use. Creating the first mode of a process
/// imports torch._dynamo's configuration, which takes most of a second.
Borrowed<> fake_mode_of_thread();

/// A FakeTensor with exactly this metadata, in some microseconds. A parameter stays a parameter (`_is_param`); a tensor
/// that requires grad without being a leaf gets a `grad_fn` that raises when it is run. Throws `PythonError` where
/// there is no such FakeTensor: layouts other than strided, subclasses, functorch wrappers.
Ref<> make_fake(Borrowed<> fake_mode, const TensorMeta& meta);

/// The same with symbols: `number_of` returns a SymInt or an int. (Above, a size that changes between calls is what it
/// is in this one.)
using NumberOf = std::function<Ref<>(Dim)>;
Ref<> make_fake(Borrowed<> fake_mode, const TensorMeta& meta, const NumberOf& number_of);

/// Metadata of the tensor that a FakeTensor represents: with its fake device, and `torch.Tensor` or `Parameter` as
/// its class. Those of a wrapper of FakeTensors have no prototype yet.
TensorMeta read_fake_meta(Borrowed<> fake);
bool is_fake(Borrowed<> object);

}  // namespace stator::torch_room
