"""Texts that compiled functions put together, against Python."""

import numpy as np
import pytest
from fuzz import loops

import xpapply
from xpapply.errors import TraceError

HEAD = """from collections import Counter
from itertools import groupby

import numpy as np

NAMES = ("up", "down", "x")
VALUES = {"a": 1.0, "b": 2.5}
"""
PROGRAMS = {
    "join of a generator": "return ''.join('abcd'[int(abs(x)) % 4] for x in v)",
    "join of a list": """
out = []
for x in v:
    out.append('x' if x > 0 else 'yy')
out.append(NAMES[int(v[0]) % 3])
return '-'.join(out)
""",
    "it grows": "s = ''\nfor x in v:\n    s += 'u' if x > 0 else 'd'\nreturn s",
    "two that share letters": """
s = 'a'
for x in v:
    s = s + ('1' if x > 0 else '0')
    t = s + 'x'
    u = s + 'y'
return [t, u, s]
""",
    "in front": "s = ''\nfor x in v:\n    s = NAMES[int(x) % 3] + s\nreturn s",
    "parts": """
s = ''.join('HC'[int(x > 0)] for x in v)
return s[1:-1] + s[::-1] + s[0] + s[-1] + s[2:][:1]
""",
    "as numbers": """
s = ''.join('1' if x > 0 else '0' for x in v)
return int(s, 2), int(s[:3]), s.count('11'), s.find('101'), len(s.split('0')), ord(s[0])
""",
    "compared": """
s = ''.join('ab'[int(x > 0)] for x in v)
return s == s[::-1], s < 'aba', s >= 'b', 'bb' in s, s[0] in ('a', 'x'), s.endswith('a'), bool(s)
""",
    "looked up": """
s = ''.join('ab'[int(x > 0)] for x in v)
t = 0.0
for c in s:
    t = 0.5 * t + VALUES[c]
return t, 'a' in VALUES
""",
    "keys": """
d = {}
for x in v:
    k = 'p' if x > 0 else 'n'
    k += str(int(abs(x)) % 3)
    d[k] = d.get(k, 0) + 1
return len(d), d.get('p0', 0), max(d.values())
""",
    "words of a set": """
s = ''.join('1' if b else '0' for b in v > np.median(v))
i, words, k = 0, set(), 1
while i + k <= len(s):
    w = s[i:i + k]
    if w in words:
        k += 1
    else:
        words.add(w); i += k; k = 1
return len(words)
""",
    "a counter": "c = Counter('abc'[int(abs(x)) % 3] for x in v)\nreturn c['a'], c['z'], len(c)",
    "in order": """
l = []
for x in v:
    l.append(NAMES[int(abs(x)) % 3])
l.sort()
return ''.join(l) + ''.join(sorted(set(l)))
""",
    "formatted": "return f'{int(v[0])}/{v.argmax()} {v[0] > 1}'",
    "run lengths": """
s = ''.join('UD'[int(x > 0)] for x in v)
return ''.join(k + str(len(list(g))) for k, g in groupby(s))
""",
    "changed": """
s = ''.join(chr(97 + int(abs(x)) % 26) for x in v)
return s.replace('a', 'zz').upper() + s.upper().lower() * 2
""",
    "none of a text": "s = ''\nfor x in v:\n    if x > 100:\n        s += 'x'\nreturn s",
    "a mean in a format": """
return f'{v.mean():.1f}'
""",
    "floats in formats": """
s=0.0
for x in v:
    if x==x and abs(x) < 1e9:
        s+=x
return f'{s:.2f}|{s:8.3f}|{s:<9.1f}|{s:+.0f}|{s:010.2f}|{s:^12.3f}|{s:.1%}'
""",
    "integers in formats": """
n=0
for x in v:
    n+=int(x>0)*137
return f'{n:5d}|{n:05}|{n:<6}|{n:,}|{n:x}|{n:#b}|{n:08b}|{n}|{-n:06d}|{n:>+7}'
""",
    "texts in formats": """
s='up' if v[0]>0 else 'down'
return f'{s:>6}|{s:<5}|{s:*^7}|{s:.2}|{s!s:4}'
""",
    "format with places": """
n=int(v[1]>0)
x = v[0] if abs(v[0]) < 9 else 1.5
return '{:.2f}/{}'.format(x, n) + '{0:d}{1}{0}{k}'.format(n, 3, k='x')
""",
    "format by percents": """
n=int(v[1]>0)+41
x=v[0] if v[0]==v[0] and abs(v[0])<9 else 1.5
return '%.2f %d%%' % (x, n)+'%5d|%-6d|%05d|%+.1f|%s' % (n,n,n,x,n)
""",
    "rounded by a text": """
s=0.0
for x in v:
    if x==x and abs(x) < 1e9:
        s+=float(f'{x:.3f}')
return s
""",
    "bits of a text": """
n=0
for x in v:
    if x==x and abs(x) < 1e9:
        n=(3*n+bin(int(10*x)).count('1'))%1001
return n,len(bin(n)),int(bin(n)[2:],2)
""",
    "other bases": """
n=0
for x in v:
    if x==x and abs(x) < 1e9:
        n=(3*n+int(10*abs(x)))%1001
return hex(n)+oct(-n)+format(n,'04x')+bin(n)+format(n)
""",
    "ends and kinds of letters": """
s=''.join('U' if x>0 else 'd' for x in v)
n = s.isupper() + 2 * s.islower() + 4 * s.isalpha() + 8 * s.isdigit()
return len(s.strip('d').lstrip('U')) + len(s.rstrip('d')), s.rfind('UU'), n
""",
    "cases and widths": """
s=''.join('U ' if x>0 else 'd' for x in v)
t = s.lower() + s.title() + s.swapcase() + s.zfill(20) + s.capitalize()
return t + s.strip() + s.center(15, '*') + s.ljust(14) + s.rjust(3)
""",
    "parts at a place": """
s=''.join('U' if x>0 else 'd' for x in v)
a,b,c=s.partition('dd')
return a+'|'+b+'|'+c+'|'+s.removeprefix('U')+s.removesuffix('d')
""",
    "methods of known texts": """
s='u' if v[0]>0 else ' down '
n=0
for x in v:
    n+=len(s.strip())+s.count('o')+s.isalpha()
return s.strip().capitalize().center(9,'*')+s.upper(),
""",
    "parts of known texts": """
s='a,b' if v[0]>0 else 'cc,d'
a,b,c=s.partition(',')
return a+c, s.title(), s.replace('c','x')
""",
    "a text that is no number": """
n=0
for x in v:
    try:
        n+=float('1.5' if x>0 else 'x')>1
    except ValueError:
        n+=10
return n
""",
    "formats as keys": """
d={}
for x in v:
    if x==x and abs(x)<99:
        k=f"{x:.0f}"
        d[k]=d.get(k,0)+1
return max(d.values()),len(d)
""",
}
REFUSED = {
    "a float as text": "s = ''\nfor x in v:\n    s += str(x)\nreturn s",
    "digits that are significant": "s = ''\nfor x in v:\n    s += f'{x:.2e}'\nreturn s",
    "a format that is computed": "n = len(v)\nfor x in v:\n    n += 1\nreturn f'{n:{n}d}'",
}


def source(body):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}\n\ndef f(v):\n{lines}\n"


X = np.random.default_rng(0).standard_normal((24, 9)) * 3
X[1, 3], X[2, 0], X[3, 4] = np.nan, np.inf, -0.0


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python(name):
    for x in (X, X.astype("float32"), X[:, :2], X[[0, 10, 11]].astype(int)):
        before = loops.counts["slices marked without need"]
        assert loops.compared(source(PROGRAMS[name]), loops.Given(x, False), counted=True) is None
        needless = loops.counts["slices marked without need"] - before
        assert needless <= 3  # NaN, infinity and zeros of both signs


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(TraceError, match="line "):
        loops.compared(source(REFUSED[name]), loops.Given(X[10:], False))


def word(v):
    out = ""
    for x in v:
        if x > 0:
            out += "up"
    return out


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
def test_widths_are_those_of_the_first_slice():
    x = np.random.default_rng(1).standard_normal((40, 12))
    with xpapply.options(engine="cpu"):
        for some in (x, x[3:], x[np.argsort((x > 0).sum(1))], -abs(x), x.reshape(4, 10, 12)):
            found = xpapply.apply_along_axis(word, -1, some)
            wanted = np.apply_along_axis(word, -1, some)
            assert found.dtype == wanted.dtype
            assert np.array_equal(found, wanted)
