/// Tasks: operations that call code of the program (`sorted` with a key, `list` of a generator), written as coroutines.
/// They `co_await` an Outcome and are resumed when the pushed frame has delivered its value. A started task is on the
/// tracer's stack of frames like any other frame, so the tracer does not recurse.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "effect/plan.h"
#include "value/value.h"

namespace stator {

/// What a waiting builtin will do with the value that the frame above it delivers. If it is known, a graph break inside
/// of that frame is possible: the plan continues the builtin.
struct Continuation {
    using Kind = PlanContinuation::Kind;
    std::optional<Kind> kind;  // none: only the coroutine knows how to continue
    Value* value = nullptr;    // of Initialise: the result
};

/// An outcome to await, with the continuation: `co_return co_await forwarded(...)` ends a task that returns the outcome
/// itself.
struct Continued {
    Outcome outcome;
    Continuation continuation;
};
inline Continued forwarded(Outcome outcome) {
    return {outcome, {Continuation::Kind::Forward}};
}

class [[nodiscard]] Task {
  public:
    struct promise_type {
        Continuation continuation;
        Value* result = nullptr;
        std::exception_ptr failure;
        /// Delivered by the frame above: a value, or an exception to be raised at the `co_await`.
        Value* delivered = nullptr;
        std::exception_ptr delivered_failure;

        Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_value(Value* value) { result = value; }
        void unhandled_exception() { failure = std::current_exception(); }

        struct Awaiter {
            promise_type& promise;
            Outcome outcome;
            bool await_ready() const noexcept { return !outcome.is_pending(); }
            void await_suspend(std::coroutine_handle<>) const noexcept {}
            Value* await_resume() const {
                if (!outcome.is_pending()) return outcome.value();
                if (promise.delivered_failure)
                    std::rethrow_exception(std::exchange(promise.delivered_failure, nullptr));
                return std::exchange(promise.delivered, nullptr);
            }
        };
        Awaiter await_transform(Outcome outcome) {
            continuation = {};
            return Awaiter{*this, outcome};
        }
        Awaiter await_transform(Continued awaited) {
            continuation = awaited.continuation;
            return Awaiter{*this, awaited.outcome};
        }
    };

    explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Task() {
        if (handle_) handle_.destroy();
    }

    void resume() { handle_.resume(); }
    bool done() const { return handle_.done(); }
    promise_type& promise() { return handle_.promise(); }

  private:
    std::coroutine_handle<promise_type> handle_;
};

}  // namespace stator
