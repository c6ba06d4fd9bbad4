#include "team.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define SPARSEKLR_FORKS
#endif

namespace sparseklr {
namespace {

// Number of times that an idle thread polls for work before it sleeps, which takes tens of microseconds.
constexpr int turns_awake = 1000;
// If the caller waits longer than this plus the time of two pieces, the thread that it waits for was not running.
constexpr std::chrono::microseconds long_wait{50};
constexpr int rest_per_wait = 10;
// A thread that wakes may share the processor of the caller and delay it.  Threads are therefore woken rarely, unless
// loops are so long that the delay does not matter.
constexpr std::chrono::milliseconds between_wakings{1};
constexpr std::chrono::microseconds long_loop{200};

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
}

constexpr std::uint64_t pieces_between(std::uint32_t begin, std::uint32_t end) {
    return std::uint64_t{end} << 32 | begin;
}

// Number of forks between the first process and this one.  If it has changed since threads were started, they do not
// exist in this process.
std::atomic<unsigned> process = 0;
#ifdef SPARSEKLR_FORKS
[[maybe_unused]] const int counts_forks = pthread_atfork(nullptr, nullptr, [] { ++process; });
#endif

}  // namespace

std::atomic<Team::clock::rep> Team::end_of_rest = 0;

struct Team::Crew {
    std::size_t others = 0;
    // The caller takes pieces from the front, and the other threads take pieces from the back.  A thread therefore
    // works on the same data in successive loops, which are still in its cache.
    alignas(64) std::atomic<std::uint64_t> left = 0;      // remaining pieces: the first, and the end in the upper half
    alignas(64) std::atomic<std::uint32_t> finished = 0;  // pieces finished by the other threads
    alignas(64) Task task{};
    std::mutex mutex;
    std::condition_variable work, done;
    std::atomic<int> asleep = 0;
    std::atomic<bool> caller_asleep = false, over = false;

    // Takes a free piece.
    bool take(bool from_the_front, std::uint32_t& piece) {
        std::uint64_t before = left.load();
        while (true) {
            const std::uint32_t begin = std::uint32_t(before), end = std::uint32_t(before >> 32);
            if (begin == end) return false;
            piece = from_the_front ? begin : end - 1;
            // On success, the piece belongs to the current task, which exists until the piece is finished.
            if (left.compare_exchange_weak(
                    before, from_the_front ? pieces_between(begin + 1, end) : pieces_between(begin, end - 1)))
                return true;
        }
    }

    // The loop of the other threads.
    void help(std::size_t worker) {
        std::uint32_t piece;
        for (int turn = 0; !over; ++turn) {
            if (take(false, piece)) {
                task.call(task.body, piece, worker);
                ++finished;
                if (caller_asleep) {
                    { const std::lock_guard<std::mutex> guard(mutex); }  // wait until a thread about to sleep sleeps
                    done.notify_one();
                }
                turn = 0;
            } else if (turn < turns_awake) {
                pause();
            } else {
                std::unique_lock<std::mutex> lock(mutex);
                ++asleep;
                work.wait(lock, [&] { return over || std::uint32_t(left >> 32) != std::uint32_t(left); });
                --asleep;
                turn = 0;
            }
        }
    }
};

Team::Team(int threads, std::size_t n_pieces)
    : threads_(std::max(1, int(std::min(std::size_t(std::max(threads, 1)), n_pieces)))) {}

Team::~Team() {
    if (!crew_ || process_ != process) return;  // after a fork, no thread exists that could release the mutex
    {
        const std::lock_guard<std::mutex> guard(crew_->mutex);
        crew_->over = true;
    }
    crew_->work.notify_all();
}

void Team::share(Task task, std::uint32_t n_pieces) {
    if (!crew_ || process_ != process) {  // after a fork, the threads of the crew exist only in the parent
        crew_ = std::make_shared<Crew>();
        process_ = process;
    }
    Crew& crew = *crew_;
    try {
        for (; crew.others + 1 < std::min<std::size_t>(size(), n_pieces); ++crew.others)
            std::thread([shared = crew_, worker = crew.others + 1] { shared->help(worker); }).detach();
    } catch (const std::exception&) {  // the system cannot start more threads
        threads_ = int(crew.others) + 1;
    }
    crew.task = task;
    crew.finished = 0;
    crew.left = pieces_between(0, n_pieces);
    const clock::time_point begin = clock::now();
    if (crew.asleep > 0 && begin >= next_waking_) {
        next_waking_ = begin + between_wakings;
        { const std::lock_guard<std::mutex> guard(crew.mutex); }  // wait until a thread about to sleep sleeps
        crew.work.notify_all();
    }
    std::uint32_t piece, own = 0;
    for (; crew.take(true, piece); ++own) task.call(task.body, piece, 0);
    const auto done = [&] { return crew.finished + own == n_pieces; };
    for (int turn = 0; turn < turns_awake && !done(); ++turn) pause();
    clock::time_point end = clock::now();
    if (!done()) {
        const clock::duration piece_time = own ? (end - begin) / own : end - begin;
        const clock::time_point slept = end;
        {
            std::unique_lock<std::mutex> lock(crew.mutex);
            crew.caller_asleep = true;
            crew.done.wait(lock, done);
            crew.caller_asleep = false;
        }
        end = clock::now();
        const clock::duration wait = end - slept;
        if (wait > long_wait + 2 * piece_time) end_of_rest = (end + rest_per_wait * wait).time_since_epoch().count();
    }
    if (end - begin > long_loop) next_waking_ = end;
}

}  // namespace sparseklr
