"""Requirements of a release: one version, pinned actions, consistent extras."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import sparseklr

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_version_is_the_same_everywhere(project: dict) -> None:
    version = project["version"]
    assert sparseklr.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_all_is_everything_a_user_may_want(project: dict) -> None:
    extras = project["optional-dependencies"]
    wanted, pending = set(), {"all"}
    while pending:
        name = pending.pop()
        wanted.add(name)
        for requirement in extras[name]:
            if found := re.match(r"sparseklr\[(.*?)\]", requirement):
                pending |= set(found[1].split(",")) - wanted
    assert wanted == set(extras) - {"test", "lint", "bench", "arena", "guarantees", "docs"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    text = workflow.read_text("utf-8")
    actions = re.findall(r"uses: (.*)", text)
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert "permissions:\n  contents: read\n" in text  # nothing more unless a job asks for it


def test_workflows_cover_the_supported_pythons(project: dict) -> None:
    named = {
        found[1]
        for line in project["classifiers"]
        if (found := re.match(r"Programming Language :: Python :: (3\.\d+)", line))
    }
    tested = set(
        re.findall(r'python: \[?"(3\.\d+)', (ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    )
    oldest, newest = min(named, key=_minor), max(named, key=_minor)
    assert project["requires-python"] == f">={oldest}"
    assert {oldest, newest} <= tested


def _minor(version: str) -> int:
    return int(version.split(".")[1])
