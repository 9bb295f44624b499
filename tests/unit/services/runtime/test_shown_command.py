import json
import os
import subprocess
import sys

SCRIPT = """
import json, sys
from pathlib import Path
from rankd.services.runtime.shown_command import show_command
before = Path("/proc/self/environ").read_bytes()
for words in json.loads(sys.argv[1]):
    done = show_command(words)
    print(json.dumps([done, Path("/proc/self/cmdline").read_text()]))
assert Path("/proc/self/environ").read_bytes() == before
big = ["x" * 1000 for _ in range(100_000)]  # the heap still grows
"""


def test_the_kernel_shows_the_words_and_the_environment_stays():
    words = [["rankd", "intake", "--db", "a b/ä.db"], ["rankd"], ["x" * 100_000, ""]]
    command = [sys.executable, "-c", SCRIPT, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"A": "b"})
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    own = "".join(f"{word}\0" for word in command)
    assert shown == [[True, "".join(f"{word}\0" for word in each)] for each in words] or shown == [[False, own]] * 3
