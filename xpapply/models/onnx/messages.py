"""How many messages a protobuf has, before it is read.

An empty message takes two bytes of a file, and some two hundred of memory once protobuf has read
it, which has no limit of its own. So the parts of a file are counted first. Numbers are passed
over in runs.
"""

from __future__ import annotations

import re
from typing import Any

from ...cache import remembered
from ...errors import InputError

MOST_MESSAGES, MOST_TEXTS = 400_000, 1_000_000
_DEEPEST = 100
"""Messages in messages, as protobuf has it."""
_DAMAGED = "it is no ONNX model, or damaged: protobuf cannot read it"
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_NUMBERS = {0: _VARINT, 1: rb"[\s\S]{8}", 5: rb"[\s\S]{4}"}
"""By how numbers are written."""


@remembered(256)
def _run(tag: bytes) -> re.Pattern[bytes]:
    """Numbers of one field, one after the other."""
    return re.compile(rb"(?:" + re.escape(tag) + _NUMBERS[tag[0] & 7] + rb")++")


_varint = re.compile(_VARINT)
_number_of = {written: re.compile(number) for written, number in _NUMBERS.items()}


def check(data: bytes, kind: Any) -> None:
    """Raise `InputError` where a message of a kind has far more parts than models have.

    Parameters
    ----------
    data : bytes
        The message.
    kind : google.protobuf.descriptor.Descriptor
        What it is.
    """
    messages = texts = 0
    left = [(0, len(data), kind, 0)]
    while left:
        at, end, kind, depth = left.pop()
        fields = kind.fields_by_number
        while at < end:
            tag = _varint.match(data, at, end)
            if tag is None:
                raise InputError(_DAMAGED)
            head = tag.group()
            written = head[0] & 7
            field = fields.get(_number(head) >> 3)
            if written in _NUMBERS:
                if field is not None:
                    numbers = _run(head).match(data, at, end)
                else:  # of which protobuf keeps the bytes
                    texts += 1
                    numbers = _number_of[written].match(data, tag.end(), end)
                if numbers is None:
                    raise InputError(_DAMAGED)
                at = numbers.end()
                _check_counts(messages, texts, depth)
                continue
            size = _varint.match(data, tag.end(), end) if written == 2 else None
            if size is None:
                raise InputError(_DAMAGED)
            start = size.end()
            at = start + _number(size.group())
            if at > end:
                raise InputError(_DAMAGED)
            if field is None or field.message_type is None:
                texts += 1
            else:
                messages += 1
                left.append((start, at, field.message_type, depth + 1))
            _check_counts(messages, texts, depth)


def _check_counts(messages: int, texts: int, depth: int) -> None:
    if messages > MOST_MESSAGES or texts > MOST_TEXTS or depth > _DEEPEST:
        raise InputError(
            f"it has more than {MOST_MESSAGES:,} parts or {MOST_TEXTS:,} texts, or they lie too "
            "deep: no such model is read"
        )


def _number(varint: bytes) -> int:
    found = 0
    for k, byte in enumerate(varint):
        found |= (byte & 127) << (7 * k)
    return found
