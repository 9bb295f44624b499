"""What the repository contains of other projects is what vendor.toml says, and the page stays small."""

import hashlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((ROOT / "vendor.toml").read_text())["package"]
FILES = [(package["name"], entry) for package in PACKAGES for entry in package["files"]]
STATIC = ROOT / "daemon/rankd/services/web/static"
LARGEST_BYTES = 150_000


@pytest.mark.parametrize(("package", "entry"), FILES, ids=[entry["to"].rpartition("/")[2] for _, entry in FILES])
def test_a_file_has_its_hash(package, entry):
    content = (ROOT / entry["to"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry["sha256"], f"{package}: run `make vendor`"


def test_each_package_comes_with_its_licence():
    assert all(any("LICENSE" in entry["from"] for entry in package["files"]) for package in PACKAGES)


def test_every_vendored_file_is_listed():
    listed = {ROOT / entry["to"] for _, entry in FILES}
    found = {path for folder in (STATIC / "vendor", ROOT / "tests/vendor") for path in folder.iterdir()}
    assert found == listed


def test_scripts_and_styles_are_small():
    size = sum(path.stat().st_size for path in STATIC.rglob("*") if path.suffix in (".js", ".css"))
    assert size < LARGEST_BYTES, size
