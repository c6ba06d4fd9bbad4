// Threads that share out short loops, thousands of times a second.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace sparseklr {

// A loop of some microseconds is worth a second thread only if that thread is awake already and nobody waits for one
// that is not.  So the others watch for work for a moment before they sleep; the pieces of a loop are taken one by one,
// by whoever has time, and a thread that does not come is not missed.  The caller waits only for a piece that another
// thread has begun.  If that takes long, the other thread had to leave its processor to somebody else: for ten times
// as long as the wait was, the callers of all teams go on alone.  On a busy machine a team is therefore slower than one
// thread by a tenth at most.
//
// The others start with the first loop that has a piece for them, and end with the team.
class Team {
public:
    explicit Team(int threads) : threads_(threads) {}
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Calls body(piece) once for each piece below n_pieces, in any order and on any thread.  It must not throw.
    template <class Body> void each(std::size_t n_pieces, const Body& body) {
        if (threads_ < 2 || n_pieces < 2 || n_pieces > UINT32_MAX || resting()) {
            for (std::size_t piece = 0; piece < n_pieces; ++piece) body(piece);
            return;
        }
        share({[](const void* self, std::size_t piece) { (*static_cast<const Body*>(self))(piece); }, &body}, std::uint32_t(n_pieces));
    }

    // Calls body(begin, end, piece) for pieces of [0, n) that begin at multiples of `step`, of at least `least` each but
    // for the last; returns how many they are.  Two for each thread are best: every piece costs a message between
    // processors, a fifth of a microsecond.  (The pair steps of 19 020 points take 34 microseconds with two threads
    // and four pieces, 38 with six and 45 with 19; with one thread they take 59.)
    template <class Body> std::size_t over(std::size_t n, std::size_t step, std::size_t least, const Body& body) {
        if (n == 0) return 0;
        const std::size_t most = threads_ < 2 ? 1 : 2 * std::size_t(threads_);
        const std::size_t fair = std::max((n + most - 1) / most, least), size = (fair + step - 1) / step * step;
        const std::size_t n_pieces = (n + size - 1) / size;
        each(n_pieces, [&](std::size_t piece) { body(piece * size, std::min(n, (piece + 1) * size), piece); });
        return n_pieces;
    }

private:
    struct Task {
        void (*call)(const void* body, std::size_t piece);
        const void* body;
    };
    using clock = std::chrono::steady_clock;

    void share(Task task, std::uint32_t n_pieces);
    void start(std::size_t wanted);
    void help();
    bool take(bool from_the_front, std::uint32_t& piece);
    static bool resting() {
        const clock::rep end = end_of_rest.load(std::memory_order_relaxed);
        return end != 0 && clock::now().time_since_epoch().count() < end;
    }
    static std::atomic<clock::rep> end_of_rest;  // 0 until there was one

    int threads_;
    std::vector<std::thread> others_;
    // The caller takes pieces from the front and the others from the back: from loop to loop a thread meets the same
    // data in its cache.
    alignas(64) std::atomic<std::uint64_t> left_ = 0;  // the pieces left: the first, and the end in the upper half
    alignas(64) std::atomic<std::uint32_t> finished_ = 0;  // by the others
    alignas(64) Task task_{};
    clock::time_point next_waking_{};
    std::mutex mutex_;
    std::condition_variable work_;
    std::atomic<int> asleep_ = 0;
    std::atomic<bool> over_ = false;
};

}  // namespace sparseklr
