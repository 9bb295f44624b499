"""How good forecasts are: a trace is lived through, and some jobs are asked about as soon as they wait.

    python benchmarks/bench_forecast.py TRACE --procs N [--jobs N] [--each N] [--policy fcfs|multifactor]

The simulator makes the daemon's decisions. At every ``--each``-th submission, the state of that instant is forecast, as
the forecaster would do, with the shares of limits that jobs used which had ended by then. The new job is asked about,
if it still waits. Its true start is scored twice: against the range, and against the latest start alone ("all limits
used up"), the simplest estimate. Prints a table row and writes JSON. Not random.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import statistics
import time
from pathlib import Path

import numpy as np
from measure import report

from rankd.config.simulated_site import Varied, simulated_site
from rankd.core.forecast.live import Live, LivePartition, OpenWork
from rankd.core.forecast.outlook import Forecast
from rankd.core.forecast.pace import Paces
from rankd.core.placement.problem import Tenant
from rankd.core.simulate.simulator import Simulation
from rankd.core.simulate.site import pool
from rankd.core.simulate.swf import read_swf
from rankd.core.simulate.trace import Selection, over, select

NEAR_S = 600.0


class Asked:
    """The jobs that were asked about, with their ranges."""

    def __init__(self, simulation: Simulation, site) -> None:
        self.simulation, self.site = simulation, site
        self.paces, self.ends = Paces(), []
        self.ranges: dict[int, tuple[float, float]] = {}
        self.untold = 0
        self.cpu_s: list[float] = []

    def learn(self, now: float) -> None:
        """Add the jobs that have ended by now."""
        while self.ends and self.ends[0][0] <= now:
            _, place = heapq.heappop(self.ends)
            job, work = self.simulation.work.jobs[place], self.simulation.work
            self.paces.add((work.accounts[place], job.user), job.run_s, job.limit_s)

    def ask(self, place: int, now: float) -> None:
        """Forecast, and note the range of this job."""
        begun = time.process_time()
        forecast = Forecast(self.live(now))
        for _ in forecast.steps():
            pass
        found = {one.job: one for one in forecast.ranges()}[place + 1]
        self.cpu_s.append(time.process_time() - begun)
        if found.early is None or found.late is None:
            self.untold += 1
        else:
            self.ranges[place] = (found.early, found.late)

    def live(self, now: float) -> Live:
        """The state of the simulation."""
        [part], work = self.simulation.parts, self.simulation.work
        running = part.running
        places, owners = np.unique(running.places, return_inverse=True)
        opened = [
            OpenWork(
                job=place + 1,
                begun_at=float(self.simulation.starts_s[place]),
                limit_s=float(work.limits_s[place]),
                share=self.share(place),
                tenant=Tenant(
                    queue=int(work.columns.queues[place]), amount={"vcore": int(work.processors[place]) * 1000}
                ),
            )
            for place in places.tolist()
        ]
        [problem] = self.simulation.problems(now)
        shares = {job: self.share(job - 1) for own in problem.waiting.values() for job in own.jobs.tolist()}
        partition = LivePartition(
            problem=problem, node_sort=self.site.partitions[0].node_sort, running=opened, owners=owners.astype(np.int64)
        )
        return Live(now=now, partitions=[partition], shares=shares, site_share=self.paces.of_site)

    def share(self, place: int) -> float:
        """The part of its limit that a job is expected to use."""
        return self.paces.of((self.simulation.work.accounts[place], self.simulation.work.jobs[place].user))


def lived(simulation: Simulation, site, each: int) -> Asked:
    """Live through the trace, and ask about every ``each``-th job."""
    asked, known = Asked(simulation, site), np.zeros(len(simulation.work.jobs), dtype=bool)
    for place in range(0, len(simulation.work.jobs), each):
        now = simulation.work.jobs[place].submit_s
        for _ in simulation.decisions(until=now):
            pass
        started = np.flatnonzero(~np.isnan(simulation.starts_s) & ~known)
        known[started] = True
        for one in started.tolist():
            heapq.heappush(asked.ends, (float(simulation.starts_s[one] + simulation.work.runs_s[one]), one))
        asked.learn(now)
        if np.isnan(simulation.starts_s[place]):
            asked.ask(place, now)
    for _ in simulation.decisions():
        pass
    return asked


def scored(asked: Asked) -> dict[str, float | int]:
    """The score of the ranges, and of the late ends alone."""
    starts = asked.simulation.starts_s
    rows = [(early, late, float(starts[place])) for place, (early, late) in asked.ranges.items()]
    within = [early - 1 <= at <= late + 1 for early, late, at in rows]
    middle = [abs(at - (early + late) / 2) for early, late, at in rows]
    simple = [abs(at - late) for _, late, at in rows]
    return {
        "asked": len(rows),
        "untold": asked.untold,
        "within": statistics.mean(within),
        "later": statistics.mean(at > late + 1 for _, late, at in rows),
        "near_middle": statistics.mean(error <= NEAR_S for error in middle),
        "near_limits": statistics.mean(error <= NEAR_S for error in simple),
        "median_error_middle_s": statistics.median(middle),
        "median_error_limits_s": statistics.median(simple),
        "median_width_s": statistics.median(late - early for early, late, _ in rows),
        "median_cpu_s": statistics.median(asked.cpu_s),
        "most_cpu_s": max(asked.cpu_s),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--procs", type=int, required=True)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--policy", default="fcfs")
    given = parser.parse_args()
    site = simulated_site(None, Varied(policy=given.policy, backfill=None, backfill_order=None), pool(given.procs))
    opening = gzip.open if given.trace.suffix == ".gz" else open
    with opening(given.trace, "rb") as file:
        jobs, _ = select(read_swf(file), Selection(most=given.jobs), over(given.procs))
    result = scored(lived(Simulation(site, jobs), site, given.each))
    name = f"forecast-{given.trace.name.split('.')[0].lower()}-{given.policy}"
    rows = [{"figure": key, "value": value} for key, value in result.items()]
    report(name, f"{len(jobs):,} jobs on {given.procs} cores, every {given.each}th asked about", rows)


if __name__ == "__main__":
    main()
