"""README.md: its numbers and its picture are those of the results, and it is short."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import readme

ROOT = Path(__file__).parents[1]
TEXT = readme.README.read_text(encoding="utf-8")


def test_numbers_are_those_of_the_results():
    assert {name for _, name, _ in readme.MARKED.findall(TEXT)} == set(readme.PARTS)
    assert readme.filled(TEXT) == TEXT


@pytest.mark.parametrize("file", readme.pictures(), ids=lambda file: file.name)
def test_pictures_are_those_of_the_results(file):
    text = readme.pictures()[file]
    assert file.read_text(encoding="utf-8") == text
    assert ElementTree.fromstring(text).find("{*}desc").text == readme.words()


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 150


def test_links_lead_to_files():
    links = re.findall(r'\]\(([^)#]+)[^)]*\)|(?:src|srcset)="([^"]+)"', TEXT)
    missing = [a or b for a, b in links if not (ROOT / (a or b)).exists()]
    assert links
    assert not missing
