"""How deep a JSON text is nested, found out before anything parses it: parsers recurse."""

import re

DEEPEST = 16
STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""Possessive, and an unclosed string reaches to the end: no text makes this go over a byte twice."""
ONE_KIND = bytes.maketrans(b"{}", b"[]")
THE_REST = bytes(set(range(256)) - set(b'[]{}"'))


def too_deep(text: bytes) -> bool:
    """Whether brackets outside strings are nested deeper than `DEEPEST`; of wrong JSON it may say either."""
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return False
    quoted = STRINGS.sub(b"", text) if b"\\" in text else text
    bare = quoted.translate(ONE_KIND, THE_REST).replace(b'""', b"")  # a string, or the end of one and the next's begin
    brackets = b"".join(bare.split(b'"')[::2])
    for _ in range(DEEPEST):  # each round takes the innermost away
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    return b"[]" in brackets or brackets.count(b"[") > DEEPEST
