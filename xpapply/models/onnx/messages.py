"""Count the messages of a protobuf before it is read.

An empty message takes two bytes of a file, and some two hundred of memory once protobuf has read
it, which has no limit of its own. So the parts of a file are counted first. Numbers, short texts
and empty messages are passed over in runs: one by one a million takes seconds.
"""

from __future__ import annotations

import re
from typing import Any

from ...errors import InputError
from ...functions.cache import remembered
from ...limits import LIMITS

MOST_OF = {"FunctionProto": 10_000, "GraphProto": 10_000, "NodeProto": 100_000}
MOST_OF |= {"AttributeProto": 100_000, "TensorProto": 100_000, "SparseTensorProto": 10_000}
MOST_OF |= {"ValueInfoProto": 250_000}
"""Of kinds whose parts are looked at one by one afterwards."""
_SHORT = 16
"""Bytes of texts that are passed over in runs as well."""
_WINDOW = 1 << 20
"""Bytes of a run of texts."""
_DAMAGED = "it is not an ONNX model, or damaged: protobuf cannot read it"
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_NUMBERS = {0: _VARINT, 1: rb"[\s\S]{8}", 5: rb"[\s\S]{4}"}
"""Patterns of numbers by wire type."""
_TEXTS = rb"(?:%s)" % b"|".join(rb"\x%02x[\s\S]{%d}" % (n, n) for n in range(_SHORT))


@remembered(256)
def _run(tag: bytes) -> re.Pattern[bytes]:
    """Numbers of one field, one after the other."""
    return re.compile(rb"(?:" + re.escape(tag) + _NUMBERS[tag[0] & 7] + rb")++")


@remembered(256)
def _texts(tag: bytes, empty: bool) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Patterns of a short, or empty, text of a field; and of a run of them."""
    one = re.escape(tag) + (rb"\x00" if empty else _TEXTS)
    return re.compile(one), re.compile(rb"(?:" + one + rb")++")


@remembered(256)
def _known(kind: str, pool: Any) -> dict[int, Any]:
    """The fields of a kind by their numbers: the kind of messages, None of texts and numbers."""
    fields = pool.FindMessageTypeByName(kind).fields_by_number
    return {number: field.message_type for number, field in fields.items()}


_varint = re.compile(_VARINT)
_number_of = {written: re.compile(number) for written, number in _NUMBERS.items()}
_ABSENT = object()


def check(data: bytes, kind: Any) -> None:
    """Raise `InputError` where a message of a kind has far more parts than models have.

    Parameters
    ----------
    data : bytes
        The message.
    kind : google.protobuf.descriptor.Descriptor
        What it is.
    """
    messages = texts = series = 0
    of_kind = dict.fromkeys(MOST_OF, 0)
    known: dict[Any, dict[int, Any]] = {}  # by kind: a file has some hundred thousand messages
    left = [(0, len(data), kind, 0)]
    while left:
        at, end, kind, depth = left.pop()
        fields = known.get(kind)
        if fields is None:
            fields = known[kind] = _known(kind.full_name, kind.file.pool)
        while at < end:
            head, after, number = data[at : at + 1], at + 1, data[at]
            if number >= 128:
                tag = _varint.match(data, at, end)
                if tag is None:
                    raise InputError(_DAMAGED)
                head, after = tag.group(), tag.end()
                number = _number(head)
            written = head[0] & 7
            inner = fields.get(number >> 3, _ABSENT)
            if written in _NUMBERS:
                if inner is not _ABSENT:
                    numbers = _run(head).match(data, at, end)
                else:  # of which protobuf keeps the bytes
                    texts += 1
                    numbers = _number_of[written].match(data, after, end)
                if numbers is None:
                    raise InputError(_DAMAGED)
                at, series = numbers.end(), series + 1
                _check_counts(messages, max(texts, series), depth)
                continue
            if written != 2 or after >= end:
                raise InputError(_DAMAGED)
            is_text = inner is _ABSENT or inner is None
            size, start, count = data[after], after + 1, 1
            again = size == 0 or (is_text and size < _SHORT)
            if again and data.startswith(head, start + size, end):
                one, run = _texts(head, not is_text)
                found = run.match(data, at, min(end, at + _WINDOW))
                if found is None:
                    raise InputError(_DAMAGED)
                count = one.subn(b"", data[at : found.end()])[1]
                at, size = found.end(), 0
            else:
                if size >= 128:
                    length = _varint.match(data, after, end)
                    if length is None:
                        raise InputError(_DAMAGED)
                    size, start = _number(length.group()), length.end()
                at = start + size
                if at > end:
                    raise InputError(_DAMAGED)
            if is_text:
                texts += count
            else:
                messages += count
                if inner.name in of_kind:
                    of_kind[inner.name] += count
                    if of_kind[inner.name] > MOST_OF[inner.name]:
                        what = f"parts of the kind {inner.name}"
                        raise InputError(f"it has more than {MOST_OF[inner.name]:,} {what}")
                if size:
                    left.append((start, at, inner, depth + 1))
            _check_counts(messages, texts, depth)


def _check_counts(messages: int, texts: int, depth: int) -> None:
    if messages > LIMITS.onnx_messages or texts > LIMITS.onnx_texts or depth > LIMITS.onnx_depth:
        raise InputError(
            f"it has more than {LIMITS.onnx_messages:,} parts or {LIMITS.onnx_texts:,} texts, "
            "or they lie too deep: no such model is read"
        )


def _number(varint: bytes) -> int:
    if len(varint) == 1:
        return varint[0]
    found = 0
    for k, byte in enumerate(varint):
        found |= (byte & 127) << (7 * k)
    return found
