// The core without Python: what sanitizers and other processors run.
//
// Built and run by tests/core/test_core_alone.py, `make sanitize` and `make compile-aarch64`.  Every part that uses
// threads runs with one and with four of them, and must give the same numbers to the last bit.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "compact_inner.hpp"
#include "decision.hpp"
#include "isa.hpp"
#include "newton_step.hpp"
#include "rows.hpp"
#include "smo.hpp"
#include "team.hpp"

using namespace sparseklr;

namespace {

int failures = 0;
#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            ++failures;                                                               \
            std::printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
        }                                                                             \
    } while (false)

// Dense rows and the same as CSR; two clouds that overlap.
struct Data {
    std::size_t n, p;
    std::vector<double> X, y;
    std::vector<double> values;
    std::vector<std::int64_t> columns, indptr{0};

    Data(std::size_t rows, std::size_t features, unsigned seed) : n(rows), p(features), X(rows * features), y(rows) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal;
        for (std::size_t i = 0; i < n; ++i) {
            y[i] = i % 2 ? 1 : -1;
            for (std::size_t j = 0; j < p; ++j) X[i * p + j] = random() % 3 ? normal(random) + (j == 0 ? y[i] : 0) : 0;
            for (std::size_t j = 0; j < p; ++j)
                if (X[i * p + j] != 0) {
                    values.push_back(X[i * p + j]);
                    columns.push_back(std::int64_t(j));
                }
            indptr.push_back(std::int64_t(values.size()));
        }
    }
    MatrixView<const double> rows(std::size_t count) const { return {X.data(), count, p}; }
    template <class T> std::shared_ptr<const Points<T>> points(const Kernel& kernel, bool sparse) const {
        if (sparse) return csr_points<T>(kernel, CsrView<double, std::int64_t>{values, columns, indptr, p});
        return dense_points<T>(kernel, rows(n));
    }
};

const Kernel kernels[] = {{KernelKind::linear, 1, 0, 3},
                          {KernelKind::poly, 0.1, 1, 3},
                          {KernelKind::rbf, 0.1, 0, 3},
                          {KernelKind::laplacian, 0.1, 0, 3},
                          {KernelKind::sigmoid, 0.01, 0, 3}};

double reference(const Kernel& kernel, const double* a, const double* b, std::size_t p) {
    double product = 0, squares = 0, absolute = 0;
    for (std::size_t j = 0; j < p; ++j) {
        product += a[j] * b[j];
        squares += (a[j] - b[j]) * (a[j] - b[j]);
        absolute += std::abs(a[j] - b[j]);
    }
    switch (kernel.kind) {
        case KernelKind::linear: return product;
        case KernelKind::poly: return std::pow(kernel.gamma * product + kernel.coef0, kernel.degree);
        case KernelKind::rbf: return std::exp(-kernel.gamma * squares);
        case KernelKind::laplacian: return std::exp(-kernel.gamma * absolute);
        case KernelKind::sigmoid: return std::tanh(kernel.gamma * product + kernel.coef0);
    }
    return 0;
}

template <class T> void test_kernel_values() {
    const Data data(801, 11, 1), queries(403, 11, 2);  // enough for threads to be worth their while
    const double allowed = sizeof(T) == sizeof(double) ? 1e-12 : 1e-3;
    for (const Kernel& kernel : kernels)
        for (const bool sparse : {false, true}) {
            const auto points = data.points<T>(kernel, sparse), other = queries.points<T>(kernel, sparse);
            std::vector<T> K[2];
            std::vector<double> sums[2], coef(2 * data.n, 0.5);
            for (const int k : {0, 1}) {
                K[k].resize(queries.n * data.n);
                sums[k].resize(2 * queries.n);
                kernel_matrix<T>(*points, *other, {K[k].data(), queries.n, data.n}, k ? 4 : 1);
                decision<T>(*points, *other, {coef.data(), 2, data.n}, {sums[k].data(), 2, queries.n}, k ? 4 : 1);
            }
            CHECK(K[0] == K[1]);
            std::vector<std::size_t> all(data.n);
            std::iota(all.begin(), all.end(), std::size_t{0});
            std::vector<const T*> alone(data.n), together(data.n);
            KernelRows<T> one(points, std::size_t{1} << 27), four(points, std::size_t{1} << 27);
            Team single(1), team(4);
            one.fetch(all, alone, single);
            four.fetch(all, together, team);
            for (std::size_t i = 0; i < data.n; i += 50) CHECK(std::equal(alone[i], alone[i] + data.n, together[i]));
            CHECK(sums[0] == sums[1]);
            double worst = 0, worst_sum = 0;
            for (std::size_t i = 0; i < queries.n; ++i) {
                double sum = 0;
                for (std::size_t j = 0; j < data.n; ++j) {
                    const double exact = reference(kernel, &queries.X[i * data.p], &data.X[j * data.p], data.p);
                    worst = std::max(worst, std::abs(K[0][i * data.n + j] - exact) / std::max(1.0, std::abs(exact)));
                    sum += 0.5 * exact;
                }
                worst_sum = std::max(worst_sum, std::abs(sums[0][queries.n + i] - sum) / double(data.n));
            }
            CHECK(worst < allowed);
            CHECK(worst_sum < 10 * allowed);
        }
}

struct Solved {
    std::vector<double> above, F;
    SolveInfo info;
};

template <class T> Solved solve_problem(RowSource<T>& source, const Data& data, int threads, const Monitor& monitor,
                                        std::int64_t max_iter = INT64_MAX) {
    const std::vector<double> box(data.n, 1e3), bound(data.n, 1e-6);
    Solved solved{std::vector<double>(data.n), std::vector<double>(data.n), {}};
    const Problem problem{data.y, box, bound, 100.0};
    Settings settings;
    settings.tol = 1e-3;
    settings.threads = threads;
    settings.max_iter = max_iter;
    settings.poll_seconds = 0;
    solved.info = solve<T>(problem, source, settings, {solved.above, solved.F}, monitor);
    return solved;
}

// F of the solution from kernel values computed one by one.
double error_of_F(const Data& data, const Kernel& kernel, const Solved& solved) {
    double worst = 0;
    for (std::size_t i = 0; i < data.n; i += 37) {
        double F = 0, size = 0;
        for (std::size_t j = 0; j < data.n; ++j) {
            const double term = solved.above[j] * data.y[j] *
                                reference(kernel, &data.X[i * data.p], &data.X[j * data.p], data.p);
            F += term;
            size += std::abs(term);
        }
        worst = std::max(worst, std::abs(F - solved.F[i]) / std::max(size, 1.0));
    }
    return worst;
}

template <class T> void test_solver() {
    const Data data(900, 4, 3);
    const Kernel kernel{KernelKind::rbf, 0.2, 0, 3};
    const double allowed = sizeof(T) == sizeof(double) ? 1e-9 : 1e-4;
    for (const bool sparse : {false, true}) {
        std::vector<Solved> runs;
        for (const int threads : {1, 4})
            for (const std::size_t cache : {std::size_t{1} << 12, std::size_t{1} << 27}) {
                KernelRows<T> source(data.points<T>(kernel, sparse), cache);
                runs.push_back(solve_problem<T>(source, data, threads, nullptr));
                CHECK(runs.back().info.status == Status::optimal);
                CHECK(runs.back().info.violation <= 1e-3);
                CHECK(runs.back().above == runs.front().above);
                CHECK(runs.back().F == runs.front().F);
            }
        CHECK(error_of_F(data, kernel, runs.front()) < allowed);
        CHECK(runs.front().info.n_iter > 3000);  // long enough to have set points aside
        // interrupted at some question, in whatever phase: above and F belong together
        for (int questions = 1; questions < 1000; questions += 9) {
            int left = questions;
            KernelRows<T> source(data.points<T>(kernel, sparse), std::size_t{1} << 27);
            const Solved stopped = solve_problem<T>(source, data, 1, [&](const Snapshot&) { return --left > 0; });
            CHECK(error_of_F(data, kernel, stopped) < allowed);
            if (stopped.info.status == Status::optimal) break;
        }
    }
    // a given matrix, of which the solver takes submatrices
    std::vector<T> K(data.n * data.n);
    const auto points = data.points<T>(kernel, false);
    kernel_matrix<T>(*points, *points, {K.data(), data.n, data.n}, 4);
    GramRows<T> gram({K.data(), data.n, data.n});
    const Solved solved = solve_problem<T>(gram, data, 4, nullptr);
    CHECK(solved.info.status == Status::optimal);
    CHECK(error_of_F(data, kernel, solved) < allowed);
}

// Every piece is worked on once, in loops that follow each other at once and after a while of sleep.
void test_team() {
    for (const int threads : {1, 2, 4}) {
        Team team(threads);
        std::vector<int> times(100);
        for (int loop = 0; loop < 2000; ++loop) {
            const std::size_t n_pieces = std::size_t(loop % 100);
            std::fill(times.begin(), times.end(), 0);
            team.each(n_pieces, [&](std::size_t piece, std::size_t worker) noexcept {
                times[piece] += worker < team.size() ? 1 : 100;
            });
            CHECK(std::count(times.begin(), times.end(), 1) == std::ptrdiff_t(n_pieces));
            if (loop % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }
}

// The other threads take pieces, and the caller waits for them; no thread is without a piece.
void test_workers_of_a_team() {
    Team team(100'000, 3);
    CHECK(team.size() == 3);
    std::vector<std::size_t> worker_of(6);
    for (int trial = 0; trial < 100 && *std::max_element(worker_of.begin(), worker_of.end()) == 0; ++trial)
        team.each(worker_of.size(), [&](std::size_t piece, std::size_t worker) noexcept {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            worker_of[piece] = worker;
        });
    CHECK(std::count(worker_of.begin(), worker_of.end(), 0) < 6);
}

// Enough points for the threads to share the loops of a pair step.
template <class T> void test_solver_of_many_points() {
    const Data data(9001, 4, 9);
    std::vector<Solved> runs;
    for (const int threads : {1, 2, 4}) {
        KernelRows<T> source(data.points<T>({KernelKind::rbf, 0.2, 0, 3}, false), std::size_t{1} << 24);
        runs.push_back(solve_problem<T>(source, data, threads, nullptr, 1500));
        CHECK(runs.back().above == runs.front().above);
        CHECK(runs.back().F == runs.front().F);
    }
}

// A source and a subset of it share memory: used in turns, each still finds its own rows.
template <class T> void test_rows_in_turns() {
    const Data data(130, 3, 5);
    const auto points = data.points<T>(kernels[0], false);
    KernelRows<T> source(points, std::size_t{1} << 20), alone(points, std::size_t{1} << 20);
    const std::unique_ptr<RowSource<T>> part = source.subset({7, 40, 41, 99});
    Team team(1);
    const std::vector<std::size_t> of_source{0, 41, 99}, of_part{0, 2, 3}, original{7, 41, 99};
    std::vector<const T*> rows(3), expected(3);
    for (int turn = 0; turn < 2; ++turn) {
        source.fetch(of_source, rows, team);
        alone.fetch(of_source, expected, team);
        for (int k = 0; k < 3; ++k) CHECK(std::equal(rows[k], rows[k] + data.n, expected[k]));
        part->fetch(of_part, rows, team);
        alone.fetch(original, expected, team);
        for (int k = 0; k < 3; ++k)
            CHECK(rows[k][0] == expected[k][7] && rows[k][1] == expected[k][40] && rows[k][3] == expected[k][99]);
    }
}

void test_products_with_rows() {
    const std::size_t m = 50, size = m + 1, per_block = 12000;
    const Data data(2 * per_block, m, 11);
    const RowBlocks blocks{{data.X.data(), per_block, m}, {data.X.data() + per_block * m, per_block, m}};
    std::vector<double> coef(m, 0.5), ridge(size, 1.0), factor(size * size), information(data.n, 0.25);
    for (std::size_t k = 0; k < size; ++k) factor[k * size + k] = 10;
    std::vector<double> results[2];
    for (const int r : {0, 1}) {
        std::vector<double> products(data.n), sum(m), step(size), change(data.n);
        row_products(blocks, coef, 2.0, products, r ? 4 : 1);
        weighted_row_sum(blocks, products, sum, r ? 4 : 1);
        newton_step({blocks, {}, information, ridge, ridge, {factor.data(), size, size}}, 1e-3, 20, step, change,
                    r ? 4 : 1);
        for (const auto* part : {&products, &sum, &step, &change})
            results[r].insert(results[r].end(), part->begin(), part->end());
        const double* last = &data.X[(data.n - 1) * m];
        CHECK(std::abs(products.back() - 2 - 0.5 * std::accumulate(last, last + m, 0.0)) < 1e-12);
    }
    CHECK(results[0] == results[1]);
}

// The row that a failure names, or n if there is none.
template <class Work> std::size_t failing_row(const Work& work, std::size_t n) {
    try {
        work();
    } catch (const NonFiniteKernel& error) { return error.row; }
    return n;
}

void test_values_that_are_not_finite() {
    Data data(500, 3, 5);
    const Kernel kernel{KernelKind::poly, 1, 0, 2.5};
    for (double& x : data.X) x = 0.1 + std::abs(x);
    for (std::size_t j = 0; j < 3; ++j) data.X[301 * 3 + j] *= -1;
    const auto points = data.points<double>(kernel, false);
    std::vector<double> sums(data.n), coef(data.n, 1.0);
    for (const int threads : {1, 4}) {
        const auto call = [&] {
            decision<double>(*points, *points, {coef.data(), 1, data.n}, {sums.data(), 1, data.n}, threads);
        };
        CHECK(failing_row(call, data.n) == 0);  // against row 301
    }
    KernelRows<double> source(points, std::size_t{1} << 20);
    Team alone(1);
    for (int trial = 0; trial < 2; ++trial) {  // a row that failed is not found in the cache
        const std::size_t i = 301;
        const double* row;
        CHECK(failing_row([&] { source.fetch({&i, 1}, {&row, 1}, alone); }, data.n) == 301);
    }
    const auto part = source.subset({300, 301, 302});  // as a solver sees points when others are set aside
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        const double* row;
        CHECK(failing_row([&] { part->fetch({&i, 1}, {&row, 1}, alone); }, data.n) == i);
    }
}

template <class T> void test_compact() {
    const Data data(1500, 5, 7);
    std::vector<std::int32_t> label(data.n);
    for (std::size_t i = 0; i < data.n; ++i) label[i] = std::int32_t(i % 3);
    const std::vector<double> weight(data.n, 1.0), gamma(data.p, 0.2);
    const CompactRows<T> rows(data.rows(data.n), label, weight, 3);
    const std::size_t k = 9;
    std::vector<double> coefs[2], gradients[2];
    for (const int r : {0, 1}) {
        CompactInner<T> inner(rows, r ? 4 : 1);
        inner.watch([] {});
        CHECK(inner.move(data.rows(k), gamma));
        coefs[r].assign(3 * (k + 1), 0.0);
        const InnerOutcome outcome = inner.solve(coefs[r], {});
        CHECK(outcome.converged);
        gradients[r].assign(k * data.p + data.p, 0.0);
        inner.gradient(1.0, {gradients[r].data(), k, data.p}, std::span(gradients[r]).subspan(k * data.p));
        const std::vector<double> nowhere(k * data.p, NAN);
        CHECK(!inner.move({nowhere.data(), k, data.p}, gamma));
    }
    CHECK(coefs[0] == coefs[1]);
    CHECK(gradients[0] == gradients[1]);
}

}  // namespace

int main() {
    std::printf("loops: %s\n", isa_name(isa()));
    test_team();
    test_workers_of_a_team();
    test_kernel_values<float>();
    test_kernel_values<double>();
    test_solver<float>();
    test_solver<double>();
    test_solver_of_many_points<float>();
    test_solver_of_many_points<double>();
    test_rows_in_turns<float>();
    test_rows_in_turns<double>();
    test_products_with_rows();
    test_values_that_are_not_finite();
    test_compact<float>();
    test_compact<double>();
    std::printf(failures ? "%d checks failed\n" : "all checks hold\n", failures);
    return failures ? 1 : 0;
}
