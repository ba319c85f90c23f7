"""The documents name what there is: links, files, commands with their flags, settings."""

import argparse
import importlib
import re

import yaml

from service.__main__ import COMMANDS, Parser
from service.config.loader import parse
from tests.chaos.run import PARTS
from tests.documents import DOCUMENTS, NOT_COMPARED, NOT_RUN, PAGES, ROOT, blocks, commands, spans
from tests.looped import looped

LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"(?:docs|service|learners|tests|deploy|\.ci)/[\w./+-]+\.\w+")
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
SETTINGS = {
    "name": "m",
    "learner": "pa1",
    "source": {"url": "redis://h:1/0/s"},
    "store": {"url": "redis://h:1/0"},
}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


every_document = looped("path", DOCUMENTS, ids=name_of)


@every_document
def test_links_lead_somewhere(path):
    for link in LINK.findall(path.read_text()):
        file, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not heading or heading in headings(target), link


def headings(path):
    """The anchors of a page's headings, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@every_document
def test_named_files_are_there(path):
    missing = [
        file
        for span in spans(path)
        for file in FILE.findall(span)
        if not re.search("NAME|FAMILY|ROOM", file) and not (ROOT / file).exists()
    ]
    assert not missing


@every_document
def test_no_document_names_a_folder_of_a_machine(path):
    assert not re.findall(r"(?<![\w.])/(?:home|root|work|Users)/\S*", path.read_text())


def named(path):
    """Every text of the document that may be a command."""
    return [*spans(path), *(command.text for command in commands(path))]


@looped("path", PAGES, ids=name_of)
def test_named_commands_have_these_flags(path):
    for line in named(path):
        if not line.startswith("onepass "):
            continue
        words = re.split(r"[\s|]+", line)[1:]
        if words[0].startswith("-") or words[0] == "…":
            continue
        assert words[0] in COMMANDS, line
        known = options(parser_of(words[0]))
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert flags <= known, line


def parser_of(command):
    parser = Parser(f"onepass {command}")
    importlib.import_module(COMMANDS[command][0]).configure(parser)
    return parser


def options(parser):
    """The flags of a command and of its own commands."""
    found = set()
    for action in parser._actions:
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(options, action.choices.values()))
    return found


@every_document
def test_named_targets_and_parts_of_make_are_there(path):
    for line in named(path):
        if not line.startswith("make "):
            continue
        assert line.split()[1] in TARGETS, line
        part = re.search(r"PART=([a-z]+)", line)
        assert part is None or part[1] in PARTS, line


@every_document
def test_settings_are_read(path):
    for block in blocks(path):
        if block.language == "yaml":
            parse(SETTINGS | yaml.safe_load(block.text), name_of(path))


@looped("reasons", [NOT_RUN, NOT_COMPARED])
def test_every_reason_is_needed(reasons):
    texts = [text for page in PAGES for text in named(page)]
    unused = [start for start in reasons if not any(re.match(start, text) for text in texts)]
    assert not unused
