"""Hooks of mkdocs: the repository's pages outside of ``docs/`` join the site, and links between them work in both.

A link on a page is relative to the page's file in the repository, so that it works there. The site has its own
places (:func:`place`), and each link is rewritten for them. A link that leads nowhere is left as it is; mkdocs then
reports it, which ends a strict build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/rankd-site-factor/README.md": "examples/rankd-site-factor.md",
    "docs/decisions": "decisions/README.md",
}
"""Pages from outside of ``docs/``, and a folder that has an index: where they are on the site."""

_FENCE = re.compile(r"^( *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"`[^`\n]+`")
_NESTED = re.compile(r"^ +(?=- )", re.MULTILINE)
_MARK = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)


def github_anchor(heading: str, separator: str) -> str:
    """The anchor of a heading as GitHub makes it, so that one link works in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def place(path: str) -> str | None:
    """Where a file of the repository is on the site; None if it is not in the repository.

    >>> place("docs/tutorial.md"), place("README.md"), place("LICENSE"), place("gone.md")
    ('tutorial.md', 'index.md', 'repository/LICENSE.txt', None)
    """
    if path in MOVED:
        return MOVED[path]
    if not (ROOT / path).is_file():
        return None
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}.txt"


def source(uri: str) -> str:
    """The file in the repository from which a page of the site is made."""
    return next((path for path, moved in MOVED.items() if moved == uri and path.endswith(".md")), f"docs/{uri}")


def rewritten(markdown: str, uri: str) -> str:
    """A page's text with its links as the site needs them, and without the comments of ``tests/doc_page.py``."""
    parts = _FENCE.split(markdown)
    return "".join(part if place_in % 2 else _prose(part, uri) for place_in, part in enumerate(parts))


def _prose(text: str, uri: str) -> str:
    here = posixpath.dirname(source(uri))

    def link(match: re.Match[str]) -> str:
        found = None if ":" in match[1] else place(posixpath.normpath(posixpath.join(here, match[1])))
        if found is None:
            return match[0]
        return f"]({posixpath.relpath(found, posixpath.dirname(uri) or '.')}{match[2] or ''})"

    text = _CODE.sub(lambda match: match[0].replace(r"\|", "|"), _MARK.sub("", text))
    text = _NESTED.sub(lambda match: match[0] * 2, text)  # Python's Markdown nests lists by four spaces, GitHub by two
    return _LINK.sub(link, text)


def linked_files() -> set[str]:
    """The files outside of ``docs/`` that pages link to, and that are not pages themselves."""
    found = set()
    for page in [*(ROOT / "docs").glob("**/*.md"), *(ROOT / path for path in MOVED if path.endswith(".md"))]:
        here = page.parent.relative_to(ROOT).as_posix()
        for target, _ in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
            path = posixpath.normpath(posixpath.join(here, target))
            if (place(path) or "").startswith("repository/"):
                found.add(path)
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Anchors as GitHub makes them; each decision has its line in the navigation."""
    config.mdx_configs["toc"]["slugify"] = github_anchor
    explanation = next(part["Explanation"] for part in config.nav or [] if "Explanation" in part)
    explanation[-1]["Decisions"] = ["decisions/README.md", *decisions()]
    return config


def decisions() -> list[str]:
    """The pages of the decisions, by number."""
    return sorted(f"decisions/{path.name}" for path in (ROOT / "docs" / "decisions").glob("0*.md"))


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The pages and files outside of ``docs/`` are part of the site."""
    for path, uri in MOVED.items():
        if path.endswith(".md"):
            files.append(File.generated(config, uri, content=(ROOT / path).read_text(encoding="utf-8")))
    for path in sorted(linked_files()):
        files.append(File.generated(config, f"repository/{path}.txt", content=(ROOT / path).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Links for the site."""
    return rewritten(markdown, page.file.src_uri)
