"""The documentation says what the code does: columns, keys, fields, verbs, links."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import msgspec
import pytest

from rankd.bus.connection import Bus
from rankd.cli.main import COMMANDS
from rankd.config.configuration import load_configuration
from rankd.config.plugin import load_factors
from rankd.core.model import service_setting, setting
from rankd.core.model.job import CHANGEABLE_FIELDS, JobRequest, state_diagram
from rankd.core.model.setting import PrioritySettings, Settings
from rankd.services.intake.intake import Intake
from rankd.services.intake.serving import Serving
from rankd.store.engine.url import open_database
from rankd.store.record.catalog import sync_catalog
from rankd.store.schema.migration import replace_views, upgrade
from rankd.store.schema.view import FactorColumn, factor_views

ROOT = Path(__file__).parents[2]
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
REFERENCE = ROOT / "docs" / "reference"

SAME_COLUMNS = re.compile(r"The same columns as `(\w+)`")
MACHINE_PATH = re.compile(r"(?<![\w.$…])/(work|tmp|home|root|Users|mnt)/[\w.-]+")


def read(name):
    return (REFERENCE / name).read_text(encoding="utf-8")


def sections(text, level):
    """The text under each heading of a level, by the name in backticks."""
    parts = re.split(rf"^#{{{level}}} `(\w+)`$", text, flags=re.MULTILINE)
    bodies = (re.split(r"^#", body, maxsplit=1, flags=re.MULTILINE)[0] for body in parts[2::2])
    return dict(zip(parts[1::2], bodies, strict=True))


def first_cells(text):
    """The names in backticks that begin the rows of tables."""
    return re.findall(r"^\| `([^`]+)`", text, flags=re.MULTILINE)


def documented_columns():
    views = sections(read("database.md"), 3)
    columns = {name: first_cells(body) for name, body in views.items()}
    for name, body in views.items():
        if same := SAME_COLUMNS.search(body):
            columns[name] = columns[same.group(1)]
    return columns


def default_factor_columns():
    factors = load_factors(PrioritySettings())
    return [
        FactorColumn(name=factor.name, per=factor.per, sql=factor.sql(), parameters=tuple(factor.parameters()))
        for factor in factors
    ]


def columns_by_view(connection):
    names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'view'").scalars().all()
    return {
        name: [row[1] for row in connection.exec_driver_sql(f'PRAGMA table_info("{name}")').all()] for name in names
    }


@pytest.fixture
async def database(tmp_path):
    async with open_database(tmp_path / "rankd.db") as database:
        yield database


async def test_every_view_is_documented_column_by_column(database):
    await upgrade(database)
    await database.write(lambda connection: replace_views(connection, factor_views(default_factor_columns())))
    assert documented_columns() == await database.read(columns_by_view)


def setting_keys(kind, prefix=""):
    """Dotted names of all keys; a table of free names (weights) is one key, a list of tables is named after it."""
    for field in msgspec.structs.fields(kind):
        path = f"{prefix}{field.name}"
        inner = field.type
        if path in ("qos", "adapters"):
            inner = inner.__args__[0]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from setting_keys(inner, f"{path}.")
        else:
            yield path


def test_the_keys_of_the_settings_are_found():
    keys = set(setting_keys(Settings))
    assert {"default_qos", "priority.weights", "priority.fairshare.half_life_s", "qos.usage_factor"} <= keys


@pytest.mark.parametrize("key", list(setting_keys(Settings)))
def test_every_setting_is_documented(key):
    assert key in first_cells(read("configuration.md"))


def test_the_documented_settings_exist():
    documented = sections_until(read("configuration.md"), "## rankd.toml", "## queues.yaml")
    assert set(first_cells(documented)) == set(setting_keys(Settings))


def sections_until(text, begin, end):
    return text[text.index(begin) : text.index(end)]


@pytest.fixture(scope="module")
def reference():
    """The module that writes the generated parts."""
    spec = spec_from_file_location("reference", ROOT / "docs" / "tools" / "reference.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["cli.md", "configuration.md"])
def test_the_generated_parts_are_what_the_code_says(reference, page):
    assert reference.filled(read(page)) == read(page), "run `make reference`"


def test_the_schemas_are_those_of_the_code(reference):
    assert reference.schemas() == read("schema.json"), "run `make reference`"


def test_the_reference_has_every_command():
    assert set(re.findall(r"^<!-- generated: (\w+) -->$", read("cli.md"), re.MULTILINE)) >= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_does(reference, command):
    parsed = reference.parsers(command)
    silent = [action.dest for found in parsed for action in found.parser._actions if not action.help]
    assert parsed
    assert silent == []


def test_every_setting_says_what_it_does(reference):
    modules = {module.__name__: module for module in (setting, service_setting)}
    found = [kind for module in modules.values() for kind in vars(module).values() if isinstance(kind, type)]
    kinds = dict.fromkeys(kind for kind in found if kind.__module__ in modules)
    fields = [(kind, field.name) for kind in kinds for field in msgspec.structs.fields(kind)]
    tables = {"priority", "fairshare", "plugins", "scheduling", "admission", "node", "retention", "qos", "adapters"}
    tables |= {"privacy", "nodes", "notifications", "devices", "nats", "sessions"}
    tables |= {"forecast", "web", "site"}
    assert [name for kind, name in fields if name not in {*reference.field_texts(kind), *tables}] == []


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^- \[(.+)\]\((.+)\)$", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = sorted(folder.glob("0*.md"))
    assert listed == [
        (page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "), page.name) for page in pages
    ]


def test_deleting_old_records_is_documented():
    assert "**`rankd db prune [OPTION …]`**" in read("cli.md")
    assert "| `--before TIME` |" in read("cli.md")
    guide = (ROOT / "docs" / "how-to" / "administrator.md").read_text(encoding="utf-8")
    assert "`[retention]`" in guide
    assert "$ rankd db prune --before" in guide


def test_the_job_format_is_documented_field_by_field():
    fields = sections_until(read("job.md"), "## Fields", "## States")
    assert first_cells(fields) == list(JobRequest.__struct_fields__)


def test_the_diagram_of_states_is_the_transition_table():
    assert f"```mermaid\n{state_diagram()}\n```" in read("job.md")


async def test_every_verb_is_documented(database):
    await upgrade(database)
    configuration = load_configuration(ROOT / "config")
    catalog = await database.write(lambda connection: sync_catalog(connection, configuration, now=0.0))
    intake = Intake(configuration, catalog, database, Bus("nats://nowhere", "docs"), lambda: 0.0)
    served = Serving(intake)
    requests = sections_until(read("bus.md"), "## Requests", "## Errors")
    assert set(first_cells(requests)) == {verb.name for verb in (*served.verbs(), *served.holders_verbs())}


def test_every_field_that_an_update_takes_is_documented():
    text = sections_until(read("bus.md"), "## Changing jobs", "A job's age stays")
    fields = {*CHANGEABLE_FIELDS, "fixed_priority"}
    assert fields <= set(re.findall(r"`(\w+)`", text))


def anchors(text):
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def broken_links(document):
    text = without_code(document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        if not path.exists() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
            yield target


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    assert list(broken_links(document)) == []


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_names_a_path_of_a_machine(document):
    assert [found.group(0) for found in MACHINE_PATH.finditer(document.read_text(encoding="utf-8"))] == []


def test_the_checks_find_what_they_look_for(tmp_path):
    document = tmp_path / "bad.md"
    document.write_text(
        "# A title\n[gone](gone.md) [here](#a-title) [no](#b) see /tmp/x and a/tmp/y\n", encoding="utf-8"
    )
    assert list(broken_links(document)) == ["gone.md", "#b"]
    assert MACHINE_PATH.findall(document.read_text(encoding="utf-8")) == ["tmp"]
