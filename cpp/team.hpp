// Threads for short parallel loops that run thousands of times per second.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace sparseklr {

// A team consists of the calling thread and up to threads - 1 other threads.  A second thread speeds up a loop of a few
// microseconds only if it is already awake, so threads poll for work for a short time before they sleep.  Threads take
// the pieces of a loop one by one, and the caller never waits for a thread that has not taken a piece.  If the caller
// waits much longer than a piece takes, the other thread has lost its processor to another program.  All teams then
// work without other threads for ten times as long as the caller waited.  On a busy machine, a team is therefore at
// most 10% slower than one thread.
//
// The other threads start with the first loop that has a piece for them.  They end soon after the team is destroyed,
// which does not wait for them.  If the system cannot start a thread, the team works with the threads that it has.  A
// team created before a fork starts new threads in the child process.
class Team {
public:
    // n_pieces is the largest number of pieces of a loop; the team has at most this number of threads.
    explicit Team(int threads, std::size_t n_pieces = SIZE_MAX);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // The largest number of workers, including the caller.
    std::size_t size() const { return std::size_t(threads_); }

    // Calls body(piece, worker) once for each piece from 0 to n_pieces - 1, in any order.  `worker` is the number of
    // the thread, from 0 (the caller) to size() - 1.  The body must be noexcept, because an exception could not reach
    // the caller from another thread, and an exception in the caller would destroy a body that other threads still use.
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

    // Calls body(begin, end, piece) for pieces of [0, n) and returns the number of pieces.  Pieces begin at multiples
    // of `step` and have a length of at least `least`, except for the last.  Two pieces per thread are best, because
    // every piece requires a message between processors, which takes 0.2 microseconds.
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
    static std::atomic<clock::rep> end_of_rest;  // until then teams work without other threads; 0 if they never rested

    int threads_;
    std::shared_ptr<Crew> crew_;  // created by the first loop; its threads share the ownership
    unsigned process_ = 0;        // the process in which the crew was started
    clock::time_point next_waking_{};
};

// Returns the number of threads that is worthwhile for the given number of kernel values.  Starting and joining threads
// takes as long as 10^5 kernel values, and much longer on a busy machine.
inline int threads_for(int threads, std::size_t values, std::size_t operations_each) {
    return double(values) * double(operations_each + 16) < 4e6 ? 1 : threads;
}

}  // namespace sparseklr
