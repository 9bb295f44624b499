"""The prolog and the epilog of one job on this node."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from rankd.services.keeper.hook_program import HookProgram, Means
from rankd.services.keeper.message import JobHooks, KeepJob
from rankd.services.keeper.spawn import HelperLost
from rankd.services.keeper.state import EPILOG, PROLOG
from rankd.services.keeper.surroundings import Surroundings
from rankd.wire.message import Report

log = logging.getLogger("rankd.keeper")

GROUPS = "RANKD_JOB_CGROUP"
"""The directories of the job's control group, with colons between them."""
HURRIED = "was killed, because the agent ends at once"


class HookedJob:
    """Runs them. A job that is ended while its prolog runs is not started; its epilog runs all the same."""

    def __init__(self, order: KeepJob, around: Surroundings) -> None:
        self._allocation = order.allocation
        self._job = order.job
        self._hooks = order.hooks or JobHooks(timeout_s=0.0)
        self._around = around
        self._began = False
        self._program: HookProgram | None = None

    @property
    def has_prolog(self) -> bool:
        """Whether something is to be run before the job."""
        return self._hooks.prolog is not None

    @property
    def has_epilog(self) -> bool:
        """Whether something is to be run after it."""
        return self._hooks.epilog is not None

    def hurry(self) -> None:
        """Kill a prolog that runs."""
        if self._program is not None:
            self._program.kill(HURRIED)

    def begin_prolog(self) -> None:
        """Note that the prolog runs. Blocks briefly.

        Raises:
            FileExistsError, FileNotFoundError: it ran before, or the allocation was never claimed.
        """
        self._around.state.begin_hook(self._allocation, PROLOG)

    async def before(self, directories: Sequence[str]) -> str | None:
        """Run the prolog; returns why it has failed.

        Raises:
            HelperLost: the helper has ended.
        """
        if self._hooks.prolog is None:
            return None
        environment = {**self._hooks.environment, GROUPS: ":".join(directories)} if directories else None
        self._program = HookProgram(
            PROLOG, self._hooks.prolog, environment or self._hooks.environment, self._hooks.timeout_s
        )
        try:
            return await self._program.run(self._means(PROLOG))
        finally:
            self._program = None

    async def after(self, report: Report) -> Report:
        """Run the epilog, if there is one; returns the report, which drains the node if the epilog has failed.

        Raises:
            HelperLost: the helper has ended.
        """
        if self._hooks.epilog is None:
            return report
        try:
            self._around.state.begin_hook(self._allocation, EPILOG)
            program = HookProgram(EPILOG, self._hooks.epilog, self._hooks.environment, self._hooks.timeout_s)
            failed = await program.run(self._means(EPILOG))
        except (FileExistsError, FileNotFoundError) as error:
            log.warning("the epilog of job %d does not run (again): %s", self._job, error)
            return report
        except HelperLost:
            raise
        except Exception as error:
            log.exception("the epilog of job %d fails", self._job)
            failed = f"epilog {self._hooks.epilog} can't be run: {type(error).__name__}: {error}"
        if failed is None:
            self._around.state.finish_epilog(self._allocation)
            return report
        log.error("job %d: %s", self._job, failed)
        return msgspec.structs.replace(report, drain=report.drain or failed)

    def _means(self, kind: str) -> Means:
        around = self._around
        group = around.groups.group(f"{self._allocation}-{kind}", None)
        return Means(around.helper, around.threads, around.clock, group, around.groups.remove_later)
