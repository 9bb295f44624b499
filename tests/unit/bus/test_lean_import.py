"""What a command imports, each in a process of its own, since a process imports a module once."""

import subprocess
import sys

LEAN = "from rankd.bus.lean_import import import_lean; import_lean(); import sys, nats\n"


def python(code):
    done = subprocess.run([sys.executable, "-c", LEAN + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_that_runs_a_job_imports_no_jetstream_no_message_of_others_and_no_parser_of_mails():
    code = "import rankd.client.run_job, rankd.client.session, rankd.cli.jobs.run, uvloop; print(*sys.modules)"
    imported = set(python(code).split())
    heavy = {"nats.js.api", "nats.js.client", "email.parser", "importlib.metadata", "typing_extensions"}
    own = {"rankd.wire.codec", "rankd.wire.request_size", "rankd.core.model.job", "numpy", "sqlalchemy"}
    assert not imported & (heavy | own)


def test_jetstream_is_there_once_it_is_used_and_so_is_what_was_hidden():
    python("""
context = nats.aio.client.Client().jetstream()
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError
import nats.js.api, importlib.metadata, typing_extensions
assert type(context) is JetStreamContext and nats.js.api.StreamConfig and importlib.metadata.version("nats-py")
""")
    python(
        "from nats.js.api import StreamConfig; from nats.js.client import api; assert api.StreamConfig is StreamConfig"
    )
    python("import nats.js; assert nats.js.api.StreamConfig is sys.modules['nats.js.api'].StreamConfig")


def test_the_headers_are_those_of_jetstream():
    assert python("""
light = nats.js.api.Header
from nats.js.api import Header
for name in ("STATUS", "DESCRIPTION", "CONSUMER_STALLED"):
    assert getattr(light, name) == getattr(Header, name) and getattr(light, name).value == getattr(Header, name).value
    assert {getattr(Header, name).value: 1}.get(getattr(light, name)) == 1
    print(name)
""").split() == ["STATUS", "DESCRIPTION", "CONSUMER_STALLED"]


def test_a_process_that_has_imported_nats_keeps_it():
    code = "import nats.js; own = nats.js; from rankd.bus.lean_import import import_lean; import_lean()\n"
    done = subprocess.run([sys.executable, "-c", code + "assert nats.js is own and own.JetStreamContext"], check=False)
    assert done.returncode == 0
