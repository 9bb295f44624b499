"""The job in the fact of a reason, which the scheduler knows by its id: people name tasks of arrays otherwise."""

from __future__ import annotations

import re

_JOB = re.compile(r"(?P<before>^(?:it would delay )?job )(?P<job>[0-9]+)(?=, for which | is before it )")


def job_in(fact: str) -> int | None:
    """The job that a fact of :mod:`.reason` names; None if it names none.

    >>> job_in("it would delay job 12, for which n1 is kept from now on")
    12
    """
    found = _JOB.search(fact)
    return None if found is None else int(found["job"])


def with_name(fact: str, name: str) -> str:
    """The fact with this name of its job.

    >>> with_name("job 12 is before it and waits for nodes", "5_3")
    'job 5_3 is before it and waits for nodes'
    """
    return _JOB.sub(rf"\g<before>{name}", fact)
