"""Live states for forecasts: those of a simulation at an instant, with jobs that wait for others or for a time."""

import msgspec
import numpy as np
from simulated import a_site

from rankd.core.forecast.live import Live, LivePartition, OpenWork
from rankd.core.forecast.outlook import Forecast
from rankd.core.placement.problem import Tenant
from rankd.core.simulate.simulator import Simulation


def live_of(simulation, site, now, *, shares=None, site_share=1.0):
    """The state of a simulation: job ``i + 1`` is that of the place ``i``."""
    [part], [own] = simulation.parts, site.partitions
    running, work, shares = part.running, simulation.work, shares or {}
    places, owners = np.unique(running.places, return_inverse=True)
    opened = [
        OpenWork(
            job=place + 1,
            begun_at=float(simulation.starts_s[place]),
            limit_s=float(work.limits_s[place]),
            share=shares.get(place + 1, site_share),
            tenant=Tenant(
                queue=int(work.columns.queues[place]),
                amount={"vcore": int(work.processors[place]) * 1000},
                user=work.jobs[place].user,
            ),
        )
        for place in places.tolist()
    ]
    [problem] = simulation.problems(now)
    partition = LivePartition(problem=problem, node_sort=own.node_sort, running=opened, owners=owners.astype(np.int64))
    return Live(now=now, partitions=[partition], shares=shares, site_share=site_share)


def state_of(jobs, processors=4, *, site=None, **shares):
    """The state when the last of these jobs has been submitted."""
    site = site or a_site(processors)
    simulation = Simulation(site, jobs)
    last_s = max(job.submit_s for job in jobs)
    for _ in simulation.decisions(until=last_s):
        pass
    return live_of(simulation, site, last_s, **shares)


def ranges_of(live, untold=None, **bounds):
    """The ranges of a forecast by job, as (early, late, reason)."""
    forecast = Forecast(live, untold, **bounds)
    for _ in forecast.steps():
        pass
    return {found.job: (found.early, found.late, found.reason) for found in forecast.ranges()}


def with_later(live, *later):
    """The same state, with jobs in its first partition that are not eligible yet."""
    first = msgspec.structs.replace(live.partitions[0], later=later)
    return msgspec.structs.replace(live, partitions=[first, *live.partitions[1:]])
