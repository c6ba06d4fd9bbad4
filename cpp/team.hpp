// Threads that share short loops, thousands of times per second.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace sparseklr {

// The caller and up to threads - 1 other threads.  A second thread speeds up a loop of some microseconds only if it is
// already awake, so threads poll for work for a moment before they sleep.  Threads take the pieces of a loop one by
// one, and the caller never waits for a thread that has not taken a piece.  If it waits much longer than a piece takes,
// the other thread has lost its processor to another program: for ten times as long as that wait, the callers of all
// teams work alone.  On a busy machine a team is therefore at most a tenth slower than one thread.
//
// The other threads start with the first loop that has a piece for them and end soon after the team, which does not
// wait for them.  If the system cannot start a thread, the team works with those that it has.  A team created before a
// fork starts new threads in the child.
class Team {
public:
    // For loops of at most n_pieces pieces, because more threads would have nothing to do.
    explicit Team(int threads, std::size_t n_pieces = SIZE_MAX);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // The largest number of workers, the caller included.
    std::size_t size() const { return std::size_t(threads_); }

    // Calls body(piece, worker) once for each piece below n_pieces, in any order.  A worker is a thread: 0 is the
    // caller, the others are numbered below size().  The body is noexcept: an exception could not
    // reach the caller from another thread, and one in the caller would destroy a body that others still use.
    template <class Body> void each(std::size_t n_pieces, const Body& body) {
        static_assert(std::is_nothrow_invocable_v<const Body&, std::size_t, std::size_t>, "the body must be noexcept");
        if (threads_ < 2 || n_pieces < 2 || n_pieces > UINT32_MAX || resting()) {
            for (std::size_t piece = 0; piece < n_pieces; ++piece) body(piece, 0);
            return;
        }
        share({[](const void* self, std::size_t piece, std::size_t worker) {
                   (*static_cast<const Body*>(self))(piece, worker);
               },
               &body},
              std::uint32_t(n_pieces));
    }

    // Calls body(begin, end, piece) for pieces of [0, n) that begin at multiples of `step`, of at least `least` each
    // but the last; returns the number of pieces.  Two per thread are best: every piece costs a message between
    // processors, a fifth of a microsecond.
    template <class Body> std::size_t over(std::size_t n, std::size_t step, std::size_t least, const Body& body) {
        static_assert(std::is_nothrow_invocable_v<const Body&, std::size_t, std::size_t, std::size_t>,
                      "the body must be noexcept");
        if (n == 0) return 0;
        const std::size_t most = threads_ < 2 ? 1 : 2 * std::size_t(threads_);
        const std::size_t fair = std::max((n + most - 1) / most, least), size = (fair + step - 1) / step * step;
        const std::size_t n_pieces = (n + size - 1) / size;
        each(n_pieces, [&](std::size_t piece, std::size_t) noexcept {
            body(piece * size, std::min(n, (piece + 1) * size), piece);
        });
        return n_pieces;
    }

private:
    struct Task {
        void (*call)(const void* body, std::size_t piece, std::size_t worker);
        const void* body;
    };
    struct Crew;  // the other threads and their shared state
    using clock = std::chrono::steady_clock;

    void share(Task task, std::uint32_t n_pieces);
    static bool resting() {
        const clock::rep end = end_of_rest.load(std::memory_order_relaxed);
        return end != 0 && clock::now().time_since_epoch().count() < end;
    }
    static std::atomic<clock::rep> end_of_rest;  // 0 if there was none

    int threads_;
    std::shared_ptr<Crew> crew_;  // created by the first loop; its threads share the ownership
    unsigned process_ = 0;        // the process in which the crew was started
    clock::time_point next_waking_{};
};

// The number of threads that pays for the given number of kernel values: starting and joining threads costs as much as
// 10^5 values, and far more on a busy machine.
inline int threads_for(int threads, std::size_t values, std::size_t operations_each) {
    return double(values) * double(operations_each + 16) < 4e6 ? 1 : threads;
}

}  // namespace sparseklr
