"""The commands of the documents, as a reader would type them, and what the pages show of their
output.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
DOCUMENTS = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "DECISIONS.md"]

NOT_RUN = {
    r"make ": "installs first, and then takes minutes",
    r"docker ": "needs a container engine",
    r"onepass (bench|papers)\b": "takes minutes",
    r"onepass demo\b": "runs until Ctrl-C; tests/browser and tests/integration run it",
}
"""Beginning of a command -> why no test runs it."""
NOT_COMPARED = {
    r"onepass checkpoints ": "which generations there are depends on when a checkpoint was due",
}
"""Beginning of a command -> why its output may be otherwise than on the page."""
RUN_IN_PROSE = r"onepass (learners|detectors|replay \$ONEPASS_DATA)"
"""Beginning of a command outside of the blocks that can be run as it stands. The others there are
names or have placeholders; tests/test_documents.py looks at their flags.
"""
NEEDS_DATA = ("ONEPASS_DATA", "20news_bodies")
"""A block with one of these words needs the data sets."""
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGES = re.compile(
    r"""[\d,]+(?=\ events/s)  # how fast
    |"(?:\w*_seconds|at|since|created)":\ ?[-\d.]+  # a time
    |"(?:position|generation|model_version|state_of|was)":\ ?"?[-\d]+"?  # when a checkpoint was due
    |generation\ \d+
    |[\d.]+\ (?:kB|s)\b  # size and age of a checkpoint
    |:\d{4,5}\b  # a port
    |….*  # left out by the page
    """,
    re.VERBOSE,
)
"""Parts of an output that another run may have otherwise."""
FIGURE = re.compile(r'\b[0-9a-f]{12,}\b|\d[\d,]*(?:\.\d+)?|"code": ?"\w+"')


class Command(NamedTuple):
    text: str
    shown: str
    """Its output, as the page shows it; empty if the page shows none."""
    needs_data: bool

    @property
    def why_not_run(self):
        return _reason(NOT_RUN, self.text)

    @property
    def why_not_compared(self):
        return _reason(NOT_COMPARED, self.text)


def _reason(reasons, text):
    return next((why for start, why in reasons.items() if re.match(start, text)), "")


class Block(NamedTuple):
    language: str
    text: str

    @property
    def file(self):
        """The name of the file that holds this text, if its first line is a comment with one."""
        named = re.match(r"# ([\w-]+\.(?:yaml|py))\n", self.text)
        return named[1] if named else ""


def blocks(page):
    return [Block(*found) for found in FENCE.findall(page.read_text(encoding="utf-8"))]


def spans(page):
    """Every text that the page has in backticks, outside of its blocks."""
    found = SPAN.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return [span.replace("\\|", "|") for span in found]


def commands(page):
    """Every command of the page's blocks, in order, and then those of its prose that can be run."""
    in_blocks = [
        Command(*statement, any(word in block.text for word in NEEDS_DATA))
        for block in blocks(page)
        for statement in _statements_of(block)
    ]
    in_prose = [
        Command(span, "", any(word in span for word in NEEDS_DATA))
        for span in dict.fromkeys(spans(page))
        if re.match(RUN_IN_PROSE, span)
    ]
    return in_blocks + in_prose


def figures(text):
    """The figures of an output that are the same in every run."""
    return set(FIGURE.findall(CHANGES.sub(" ", text)))


def _statements_of(block):
    """(statement, output that the page shows) of a block."""
    if block.language == "sh":
        lines = block.text.splitlines()
        while lines:
            statement, lines = _take_statement(lines)
            yield statement, ""
    elif block.language == "text":
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            statement, shown = _take_statement(part.splitlines())
            yield statement, "\n".join(shown)


def _take_statement(lines):
    """The first statement, which may go on over several lines, and the lines after it."""
    count = 1
    while not _is_whole("\n".join(lines[:count])):
        count += 1
    return "\n".join(lines[:count]), lines[count:]


def _is_whole(statement):
    try:
        shlex.split(statement, comments=True)
    except ValueError:
        return False
    return not statement.endswith("\\")
