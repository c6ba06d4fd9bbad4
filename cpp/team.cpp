#include "team.hpp"

#include <algorithm>
#include <system_error>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace sparseklr {
namespace {

// For so many turns of a loop, tens of microseconds, a thread stays awake and looks for work.
constexpr int turns_awake = 1000;
// A wait that is longer was not for the end of a piece.
constexpr std::chrono::microseconds long_wait{50};
constexpr int rest_per_wait = 10;
// A thread that is woken may find no processor but that of the caller, who is then in its way: not too often.
constexpr std::chrono::milliseconds between_wakings{1};

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
}

constexpr std::uint64_t pieces_between(std::uint32_t begin, std::uint32_t end) { return std::uint64_t{end} << 32 | begin; }

}  // namespace

std::atomic<Team::clock::rep> Team::end_of_rest = 0;

Team::~Team() {
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        over_ = true;
    }
    work_.notify_all();
    for (std::thread& other : others_) other.join();
}

void Team::start(std::size_t wanted) {
    try {
        while (others_.size() + 1 < wanted) others_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {  // the system has no more threads: those that there are do
        threads_ = int(others_.size()) + 1;
    }
}

// A piece that nobody has taken yet.
bool Team::take(bool from_the_front, std::uint32_t& piece) {
    std::uint64_t left = left_.load();
    while (true) {
        const std::uint32_t begin = std::uint32_t(left), end = std::uint32_t(left >> 32);
        if (begin == end) return false;
        piece = from_the_front ? begin : end - 1;
        // If this succeeds the piece is one of the task of this moment, which stays until the piece is finished.
        if (left_.compare_exchange_weak(left, from_the_front ? pieces_between(begin + 1, end) : pieces_between(begin, end - 1)))
            return true;
    }
}

void Team::share(Task task, std::uint32_t n_pieces) {
    start(std::min<std::size_t>(std::size_t(threads_), n_pieces));
    task_ = task;
    finished_.store(0, std::memory_order_relaxed);
    left_ = pieces_between(0, n_pieces);
    if (asleep_ > 0 && clock::now() >= next_waking_) {
        next_waking_ = clock::now() + between_wakings;
        { const std::lock_guard<std::mutex> guard(mutex_); }  // who is about to sleep does so first
        work_.notify_all();
    }
    std::uint32_t piece, own = 0;
    for (; take(true, piece); ++own) task.call(task.body, piece);
    const auto done = [&] { return finished_.load(std::memory_order_acquire) + own == n_pieces; };
    for (int turn = 0; turn < turns_awake; ++turn) {
        if (done()) return;
        pause();
    }
    const clock::time_point begin = clock::now();
    while (!done()) std::this_thread::yield();
    const clock::time_point end = clock::now();
    if (end - begin < long_wait) return;
    end_of_rest = (end + rest_per_wait * (end - begin)).time_since_epoch().count();
}

void Team::help() {
    std::uint32_t piece;
    for (int turn = 0; !over_; ++turn) {
        if (take(false, piece)) {
            task_.call(task_.body, piece);
            finished_.fetch_add(1, std::memory_order_release);
            turn = 0;
        } else if (turn < turns_awake) {
            pause();
        } else {
            std::unique_lock<std::mutex> lock(mutex_);
            ++asleep_;
            work_.wait(lock, [&] { return over_ || std::uint32_t(left_ >> 32) != std::uint32_t(left_); });
            --asleep_;
            turn = 0;
        }
    }
}

}  // namespace sparseklr
