"""All pages, in the order of the line that leads to them."""

from __future__ import annotations

from rankd.services.web.job_view import forms, job, why
from rankd.services.web.me_view import me
from rankd.services.web.node_view import nodes
from rankd.services.web.queue_view import queue
from rankd.services.web.queues_view import queues
from rankd.services.web.service_view import services
from rankd.services.web.share_view import shares
from rankd.services.web.view import View

VIEWS = [
    View("queue", "/queue", "Queue", queue, template="queue.html"),
    View("queues", "/queues", "Queues", queues),
    View("shares", "/shares", "Fair share", shares, is_personal=True),
    View("nodes", "/nodes", "Nodes", nodes),
    View("me", "/me", "Me", me, is_personal=True),
    View("services", "/services", "Services", services, is_personal=True),
    View("job", "/job/{id}", "Job {id}", job, is_personal=True, besides=forms, template="job.html"),
    View("why", "/why/{id}", "Why {id}", why, is_personal=True),
]
WHAT_IF = ("/whatif", "What if")
_LINE = ("queue", "queues", "shares", "nodes", "me", "services")


def tabs(present: str) -> list[tuple[str, str, bool]]:
    """Path, title, and whether it is the present one, of each page in the line."""
    found = [(view.path, view.title, view.name == present) for view in VIEWS if view.name in _LINE]
    found.insert(4, (*WHAT_IF, present == "whatif"))
    return found
