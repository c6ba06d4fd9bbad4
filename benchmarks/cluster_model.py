"""Simulation of a pass over all rows on a cluster.

Workers process parts of the rows at a measured speed. A scheduler, which like Dask's needs some time for every task,
distributes the work. The sums are added along a tree of tasks over a network of given latency and bandwidth. The
simulation follows every task. ``--measure`` measures the speed of a worker on this machine.

    python -m benchmarks.cluster_model --rows 1e9 --points 16 --cores 1 10 100 1000 10000
"""

from __future__ import annotations

import argparse
import heapq
import time
from dataclasses import dataclass, replace

import numpy as np

from .common import show

# Microseconds per row with 20 features in a pass that computes all gradients, by number of points; measured
# on one core of the machine described in docs/speed.md (AVX2).
MICROSECONDS = {4: 0.04, 16: 0.08, 64: 0.24, 160: 0.48, 500: 1.40}


@dataclass(frozen=True)
class Cluster:
    """Properties of a cluster that determine the time of a pass.

    Attributes
    ----------
    cores : int
    row_seconds : float
        Time that one core needs for a row.
    n_numbers : int
        Number of values in a sum: 1 + k p + p + k + 1 for a model with k points and p features.
    latency, bandwidth : float
        Latency of a message in seconds, and bandwidth of each worker in bytes per second and direction.
    task_seconds : float
        Time that the scheduler needs for a task; it handles one task at a time.
    part_rows : int
        Number of rows of a part; 10^6 rows of 20 features have 92 MB.
    arity : int
        Number of sums that one task adds.
    jitter : float
        Standard deviation of the logarithm of the time of a task; one task in a hundred takes twice as long.
    """

    cores: int
    row_seconds: float
    n_numbers: int
    latency: float = 1e-3
    bandwidth: float = 1.25e9
    task_seconds: float = 2.5e-4
    part_rows: int = 1_000_000
    arity: int = 8
    jitter: float = 0.1


def simulate(rows: float, cluster: Cluster, seed: int = 0) -> float:
    """Return the simulated time of a pass in seconds; every task is followed from the queue to its result."""
    rng = np.random.default_rng(seed)
    n_parts = max(1, round(rows / cluster.part_rows), min(cluster.cores, round(rows / 20_000)))
    size = 8 * cluster.n_numbers
    # the workers pass the model on to one another
    ready = np.ceil(np.log2(cluster.cores + 1)) * (cluster.latency + size / cluster.bandwidth)
    scheduler = 0.0  # time at which the scheduler is free again
    work = rows / n_parts * cluster.row_seconds * np.exp(cluster.jitter * rng.normal(size=n_parts))
    work[rng.random(n_parts) < 0.01] *= 2
    free = [ready] * cluster.cores
    heapq.heapify(free)
    done = []
    for seconds in work:
        scheduler += cluster.task_seconds
        start = max(heapq.heappop(free), scheduler + cluster.latency)
        heapq.heappush(free, start + seconds)
        done.append(start + seconds + cluster.latency)
    while len(done) > 1:
        level = []
        for k in range(0, len(done), cluster.arity):
            group = done[k : k + cluster.arity]
            scheduler = max(scheduler, max(group)) + cluster.task_seconds
            # one of the sums is already on the worker, and all other sums share one network connection
            transfer = (len(group) - 1) * size / cluster.bandwidth
            adding = len(group) * size / 4e9
            level.append(scheduler + 2 * cluster.latency + transfer + adding)
        done = level
    return float(done[0])


def measured(points: int, features: int = 20, rows: int = 200_000) -> float:
    """Return the measured time in seconds that one core of this machine needs for a row."""
    from sparseklr.compact.model import CompactModel
    from sparseklr.streaming.gauss_newton import LossPass
    from sparseklr.streaming.sources import Block

    rng = np.random.default_rng(0)
    block = Block(0, rng.normal(size=(rows, features)).astype(np.float32), np.zeros(rows, dtype=np.int32))
    model = CompactModel(
        rng.normal(size=(points, features)), np.full(features, -3.0), rng.normal(size=(1, points + 1))
    )
    times = []
    for _ in range(5):
        start = time.perf_counter()
        LossPass(model, 2)(block)
        times.append(time.perf_counter() - start)
    return min(times) / rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--points", type=int, nargs="+", default=[16, 160])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 10, 100, 300, 1000, 3000, 10_000])
    parser.add_argument("--measure", action="store_true", help="the speed of this machine")
    arguments = parser.parse_args()
    for points in arguments.points:
        seconds = (
            measured(points)
            if arguments.measure
            else 1e-6 * np.interp(points, list(MICROSECONDS), list(MICROSECONDS.values()))
        )
        table = []
        for cores in arguments.cores:
            cluster = Cluster(cores, float(seconds), 1 + 20 * points + 20 + points + 1)
            ideal = arguments.rows * cluster.row_seconds / cores
            dask = simulate(arguments.rows, cluster)
            coarse = simulate(arguments.rows, replace(cluster, part_rows=10_000_000))
            free = simulate(arguments.rows, replace(cluster, task_seconds=1e-6, latency=2e-5))
            table.append([cores, ideal, dask, coarse, free, ideal / min(dask, coarse)])
        title = f"One pass over {arguments.rows:.0e} rows of 20 features, {points} points ({1e6 * seconds:.2f} microseconds a row)"
        show(
            title,
            [
                "cores",
                "ideal s",
                "Dask, parts of 10^6",
                "parts of 10^7",
                "no scheduler, fast network",
                "efficiency",
            ],
            table,
        )


if __name__ == "__main__":
    main()
