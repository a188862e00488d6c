"""Random short Python functions: a library's function, or what people write, and little else.

They are compiled quickly, so that rare constructs meet rare values more often than in the long
programs of `loops`. In the tables ``$a||b$`` is one of several.
"""

from __future__ import annotations

import re

from .library_calls import IDIOMS, NUMBERS, OF_ARRAYS
from .loops import CONSTANTS, HEAD, ONE_OF_NUMPY, SCALARS, TWO_OF_NUMPY, Program


def _lines(table: str) -> list[str]:
    return [x.strip() for x in table.strip().split("\n")]


def _blocks(table: str) -> list[str]:
    return [x.strip("\n") for x in table.split("---\n")]


ARRAYS = _lines("""
np.sort({x})[::-1]
np.cumsum({x}[::-1])[::-1]
np.$minimum||maximum$.accumulate({x})
np.$add||multiply$.accumulate({x})
np.quantile({x}, $[0, 1]||TAB * 0 + 0.3||[0.5, 1.0, 0.1]$)
np.percentile({x}, $[0, 100]||(5, 95.5, 50)||[{n}]$)
np.unique({x}, return_counts=True)[$0||1$]
np.convolve({x}, $TAB||{y}||np.ones(3)||{x}$, "$full||same||valid$")
np.correlate({x}, $TAB||{y}||{x}[:2]$, "$full||same||valid$")
np.bincount($np.abs({x}).astype(int) & 7||np.arange(len({x})) % 3$, minlength={n})
np.bincount(np.arange(len({x})) % 3, {x}$||, 5||, minlength={n}$)
np.histogram({x}, $bins=3||4||[-1.0, 0.0, 2.0]||np.sort({y})$)[$0||1$]
np.histogram({x}, {n} + 1, ($-1, 2||0, 0||{e}, 5||-20, 20$))[$0||1$]
np.digitize({x}, $np.sort({y})||TAB||[0, 1, 1, 3]$$||, right=True$)
np.searchsorted($np.sort({x})||{x}||TAB$, {y}$||, side="right"$)
np.interp({x}, $np.sort({y})||{y}||np.arange(len({y})) * 1.0$, {y})
np.linspace({e}, $1||{e}||-2.5$, {n}$||, endpoint=False$)
np.arange({e}, $3||{n}||-4$, $0.7||-1||1||2||0.1$)
np.arange($0||-3||{n}$, $3||{n}||-4$, $2||-1||1||3$)
np.roll({x}, $-{n}||{n}||-1||{n}, axis=0$)
np.repeat({x}, $2||{n}$)
np.tile({x}, {n})
np.gradient({x}$||, 0.5||, 2$)
np.isclose({x}, $0.5||{y}||{x}$$||, rtol=0.1, atol=0.0||, equal_nan=True$)
np.where($mask||{x} == {x}||{x}$, $ {x}||{e}||1||0.5$, $ {x}||{e}||-1||{x} * 0.5$)
np.$flatnonzero({x} > {e})||nonzero({x})[0]||where({x} < {e})[0]$
{x}.astype($int||float||np.int8||np.float32||np.uint8||bool||np.int32||np.float64||np.int16$)
np.insert({x}, $0||-1||{n}||len({x})$, {e})
np.delete({x}, $0||-1||{n}$)
np.append({x}, $ {e}||{y}||[1, 2]$)
np.$concatenate||hstack$(({x}, $TAB||{y}||[1]$))
np.vstack(({x}, {x})).$sum||mean||max||min||argmax||argmin$($axis=0||axis=1||0||1||axis=-1$)
np.column_stack(({x}, {x}[::-1])).$sum||mean||max||min||argmax||argmin$($axis=0||axis=1||0||1$)
np.outer({x}, $TAB||{x}$)[$0||:, 1||-1, ::-1$]
np.outer({x}, $TAB||{x}$).$sum||max||mean$(axis=$0||1$)
np.reshape({x}, $(-1, 1)||(1, -1)||(len({x}) // 2, -1)$)[$0||-1||:, 0$]
np.$round||around$({x}$||, 2||, {n}||, -1$)
np.clip({x}, $ {y}||{e}||0||-1.5||None$, $1||{e}||2.5||10$)
{x}.clip($min={e}||max={e}||0, 1$)
np.ufunc({x})
np.ufunc2({x}, $ {y}||{e}||2||0.5||-1||{x}$)
np.ufunc2($ {e}||2||0.5$, {x})
({x} op $ {y}||{e}||2||0.5||-1||{x}||np.float32(0.1)||np.int8(3)$)
($ {e}||2||0.5||-1||np.float32(0.1)||np.uint8(200)$ op {x})
({x} cmp $ {y}||{e}||2||0.5||-1||{x}||300||-1$)
$~mask||mask & ({x} == {x})||mask | mask2||mask ^ mask2||mask * {x}||mask + mask2||mask - 1$
$-{x}||+{x}||abs({x})||{x} ** 2||{x} ** 0.5||{x} ** 3||{x} // 1||{x} % 1||{x} ** -1||2 ** {x}$
{x}[$mask||{x} == {x}||{x} > 0$]
{x}[np.argsort({x}, kind="stable")]
{x}[np.array([0, -1, 0])]
{x}[$:||1:||:-1||::-1||::2||{n}:||-{n}:||:{n}||{n}:{n}||::-2||-1:0:-1||5:1:-1||:100||-100:2$]
np.$zeros||ones||empty$_like({x}$||, dtype=float||, int$) * 0 + {x}
np.full_like({x}, {e})
np.full({n}, $ {e}||1||0.5$$||, np.float32||, dtype=int||, np.int8$)
np.array([{e}, $ {e}||1||0.5||{x}[0]$]$||, np.float32||, dtype=float||, int$)
np.array([{e} for _ in range({n})])
np.$diff||copy||flip||abs||negative||sign$({x})
np.isnan({x})
{x}.$copy()||ravel()||flatten()||cumsum()||cumprod()||argsort()||nonzero()[0]||tolist()||\
reshape(-1)$
""")
SINGLE = _lines("""
{x}.$sum||prod||max||min||mean||var||std||argmax||argmin||any||all$($||axis=0||axis=-1||0$)
np.$sum||prod||max||min||mean||var||std||argmax||argmin||any||all||amax||amin||ptp||median$({x})
np.$nansum||nanmean||nanvar||nanstd||nanmax||nanmin||nanmedian||count_nonzero||ptp$({x})
np.$var||std||nanvar||nanstd$({x}, ddof=$1||{n}$)
np.$add||multiply||maximum||minimum||logical_and||logical_or$.reduce({x})
np.$quantile({x}, 0.3)||quantile({x}, 1.0)||quantile({x}, 0.5)||percentile({x}, {n} * 25)$
np.percentile({x}, $50||100||33.3||0$)
np.median($ {x}||{x} * 1.0||mask * 1.0||np.concatenate(({x}, {y}))$)
np.$dot||inner||vdot$({x}, $ {x}||{y}||{x}[::-1]||TAB$)
({x} @ $ {x}||{x}[::-1]||{y}$)
np.searchsorted($np.sort({x})||{x}||TAB||np.cumsum({x})$, $ {e}||0||0.1||1$$||, side="right"||\
, "right"$)
np.digitize($ {e}||0.1||1$, $np.sort({x})||TAB[::-1]$$||, right=True$)
np.interp($ {e}||0.3$, $np.sort({x})||{x}||TAB[::-1]$, $ {x}||TAB$)
np.trapezoid({x}$||, dx=0.5||, dx={e}||, {y}$)
np.polyval($TAB||{x}$, $ {e}||2||0.5$)
np.clip($ {e}||{x}[0]||1.5$, $0||{e}||None$, $1||{e}$)
np.round($ {e}||{x}[0]||float({e})$, $1||0||-1||{n}$)
np.isclose($ {e}||{x}[0]$, $ {e}||{y}[0]||0.5$)
np.allclose({x}, $ {y}||{e}||{x}$$||, equal_nan=True||, atol=1$)
len(np.unique({x}))
$max||min||sum||any||all||sorted||list$({x})$||[0]||[-1]$
$max||min||sum$(z$||*z||-z||% 2$ for z in {x})
$max||min$($ {x}||list({x})||[z for z in {x}]$, key=lambda z: $abs(z)||-z||z % 2||z > {e}||0$)
$max||min$({e}, $ {x}[0], {e}||{x}[-1]||0||1.5||np.float32(0.1)$)
sorted({x}, $reverse=True||key=abs||key=lambda z: -z||key=lambda z: z % 2, reverse=True$)[$0||\
-1||{n}$]
math.$fsum||prod$($ {x}||{x} * 0.5||[z for z in {x}]$)
functools.reduce($max||min||lambda p, q: p * 0.5 + q||operator.add||operator.mul$, {x}$||, 0||\
, 0.5$)
sum(map($abs||float||lambda z: z * 2||math.sqrt||int$, {x}))
len(list($filter(None, {x})||filterfalse(lambda z: z > {e}, {x})||\
takewhile(lambda z: z < {e}, {x})$))
sum($islice({x}, {n})||islice({x}, 1, None, 2)||islice({x}, {n}, 3)||chain({x}, {y})||\
accumulate({x})$)
$max||min||sum$($accumulate({x}, max)||accumulate({x}, lambda p, q: q - p)||\
accumulate({x}, initial=2)$)
sum(p < q for p, q in $pairwise({x})||zip({x}, {y})||zip({x}, {x}[1:])||combinations({x}, 2)$)
sum(i * (z > {e}) for i, z in enumerate({x}$||, 1||, {n}$))
sum(1 for k, g in groupby($ {x}||mask||({x} > {e})$) if k)
max((len(list(g)) for k, g in groupby({x}, key=lambda z: z > {e}) if k), default=$0||-1$)
next((i for i, z in enumerate({x}) if z > {e}), $-1||None||len({x})$)
len(set({x}$||[{n}:]$) $&||or||-||^$ set({y}))
$len||min||max||sum$($set({x})||{{int(z) for z in {x}}}||{{z > 0 for z in {x}}}$)
(sorted($set({x})||{{abs(z) for z in {x}}}$)[$0||-1$])
([z for z in {x}] $==||!=$ [z for z in {y}])
({e} $in||not in$ $ {x}||list({x})||[z for z in {x}]||set({x})||({e}, 1)$)
list({x}).$index||count$({e})
[z for z in {x}].$index||count$({x}[$0||-1||{n}$])
len([z for z in {x} if z > {e}])
len({x}[{x} > {e}])
math.$floor||ceil||trunc||sqrt||exp||log||fabs||isnan||gcd||isqrt||factorial$(abs($ {x}[0]||{e}$))
math.$gcd||comb||perm||lcm$($ {n}||len({x}) + {n}$, {n})
math.$atan2||copysign||fmod||pow||hypot||ldexp||remainder$({x}[0], $ {e}||{x}[-1]||2$)
round($float({x}[0])||{x}[0]||{e}||float({x}[0]) * 0.125$$||, 1||, 2||, {n}||, -1$)
divmod($ {x}[0]||{e}||int({n})$, $ {x}[-1]||2||0.7||-3$)[$0||1$]
($ {x}[0]||{e}||{n}$ $//||%||**||-||*||/$ $ {x}[-1]||2||0.7||-3||{n}||np.float32(0.5)$)
pow($ {x}[0]||{e}||{n}$, $2||3||0.5||-1||{n}$)
$int||float||bool||np.float32||np.int8||np.uint8||np.int64||np.uint64||np.float16$($ {x}[0]||{e}$)
{x}[$0||-1||{n}||-{n}$].$item()||real||conjugate()||imag$
np.ufunc($ {x}[0]||{e}||float({x}[0])||{n}$)
np.ufunc2($ {x}[0]||{e}||float({x}[0])||{n}$, $ {x}[-1]||{e}||2||0.5$)
""")
WRITTEN = _blocks("""
{w} = {x}.copy()
{w}[$1:||:-1||::2||{n}:||:{n}||::-1||{n}:{n}||-{n}:$] $=||+=||-=||*=$ $ {e}||0||1.5||{w}[0]$
{a} = {w}[$0||-1$]
{b} = {w}.sum()
---
{w} = {x}.copy()
{w}[1:] $=||+=||-=||*=$ {w}[:-1]$|| * 2||[::-1]$
{w}[$::2] = {w}[::2][::-1]||:] = {w}[::-1]||::-1] = {w}||:3] = {w}[:3] * 2||:2] = {w}[-2:]$
{a} = {w}[-1]
{b} = {w}[0]
---
{w} = {x} $+||*||-$ $1||0.5||{x}$
{w}[$ {w} > {e}||{w} != {w}||mask$] $=||+=$ $0||{e}||-1.5$
{a} = {w}.max()
{b} = {w}[0]
---
{w} = {x}.copy()
{l} = {w}[$1:||::-1||::2||:{n}$]
for {i} in range(len({l})):
    {l}[{i}] $=||+=||-=$ $ {i}||{w}[0]||{w}[-1]||{e}$
{a} = {w}[$0||-1$]
{b} = {l}[0]
---
{w} = {x}.copy()
{l} = {w}
{w} $+=||-=||*=||//=||%=$ $1||2||{x}||{w}[0]$
{l} = {l} $+||-$ 1
{a} = {w}[0]
{b} = {l}[-1]
---
{w} = {x}.copy()
for {i}, {y} in enumerate({w}):
    {w}[$len({w}) - 1 - {i}||-{i}||{i} - 1||{i}||0$] $=||+=||-=$ $ {y}||{i}||{w}[{i} // 2]||{e}$
    {a} += {y}
{b} = {w}[-1]
---
{w} = {x}.copy()
for {y}, {n2} in zip({w}, {w}[$1:||::-1||:$]):
    {w}[0] = {n2}
    {a} += {y} - {n2}
{b} = {w}[0]
---
{w} = np.zeros(({n} + 1, $3||len({x})$)$||, int||, np.float32$)
for {i} in range(len({w})):
    {w}[{i}$, 0||, -1||, {i} % 3||$] $=||+=$ $ {i}||{x}[0]||{e}$
    {w}[{i}, :] += {w}[$0||{i} - 1||-1$]
{a} = {w}$.sum()||[0, 0]||.max()||[:, 0].sum()||.sum(axis=0)[0]||.mean(axis=1)[-1]||[-1].sum()$
{b} = {w}.shape[0]
---
{w} = np.$empty||zeros$($len({x})||{n}$$||, dtype=np.float32||, np.int8||, int||, bool||, np.uint8$)
{w}.fill($ {e}||0||1||3.7||{x}[0]||300||-1$)
{w}[:1] = {e}
{a} = {w}$.sum()||[0]||[-1]||.mean()$
---
{w} = {x}.copy()
{w}[$0||-1||{n}$], {w}[$1||0||-2$] = {w}[$-1||1$], {w}[0]
{a}, {b} = {w}[0], {w}[-1]
---
for {i} in range(1, len({x})):
    $v[{i}] = v[{i} - 1] * 0.5||v[{i} - 1] = v[{i}]||v[0] += v[{i}]||v[-{i}] -= 1$
{a} = v[0]
{b} = v[-1]
---
v[$1:] = v[:-1]||:] = {e}||mask] = 0||::2] += 1||v > {e}] = 1||:] = v[::-1]||{n}:] *= 2$
{a} = v[-1]
{b} = {x}[0]
---
{w} = {x}.$astype(np.int8)||astype(np.uint8)||astype(np.float32)||astype(bool)||astype(int)$
for {y} in {w}:
    {a} $+=||-=||*=$ {y}
    {b} = {y} $+||-||//||%||&||<<||>>||*$ $1||2||{w}[0]||100||{y}||-1||0.5$
---
{w} = {x}.copy()
{w}[np.array([0, -1, 0])] = $ {e}||1||{w}[1]$
{a} = {w}[0]
{b} = {w}[-1]
""")
WAYS = _blocks("""
it = iter($ {x}||[z for z in {x}]||list({x})$)
{a} = $next(it)||next(it, 0)||sum(1 for _ in it)||any(z > {e} for z in it)||max(it, default=0)$
for {y} in it:
    {b} += 1
    if {y} $>||<$ {e}:
        break
{b} += 10 * $len(list(it))||next(it, 7)||sum(it)||sum(1 for _ in it)||next(it)$
---
it = iter({x})
for {y}, {n2} in $zip(it, it)||zip(it, {u})||zip({u}, it)||zip(it, range({n}))||enumerate(it)$:
    {a} += 1
    if {n2} > {e}:
        break
{b} = len(list(it))
---
{l} = $[z for z in {x}]||list({x})||sorted({x})||[1.0, 2.0]||[]$
{l}.$append({e})||extend({x})||insert({n}, {e})||insert(-1, {x}[0])||extend({l})||reverse()||sort()$
$ {l}.pop()||{l}.pop(0)||del {l}[0]||del {l}[-1]||{l}.remove({l}[0])||{l} += [{e}]||{l}.clear()$
{a} = len({l})
{b} = $ {l}[0]||{l}[-1]||sum({l})||{l}[{n}]||max({l})||{l}.index({l}[-1])||{l}[::-1][0]||\
{l} == {l}[:]$
---
{l} = [z for z in {x}]
for {y} in {l}:
    {a} += 1
    if {a} < 9 $and {y} > {e}||or {y} == 0||$:
        {l}.$append({y})||pop()||insert(0, {y})||remove({y})||pop(0)$
{b} = len({l})
---
d = {{}}
for {i}, {y} in enumerate({x}):
    d[$ {y}||{i} % 3||{y} > {e}||({i} % 2, {y} > 0)||float({y})||int({y})$] = $ {i}||{y}||\
d.get({y}, 0)$
    $pass||d.pop({i}, None)||d.setdefault({y}, {i})||del d[{y}]||if {y} in d: {b} += 1$
{a} = len(d)
{b} += $sum(d.values())||max(d.values())||d.get({x}[0], 5)||len(list(d))||list(d.values())[0]||\
min(d)$
---
c = $Counter({x})||Counter(z > {e} for z in {x})||Counter([int(z) for z in {x}])||defaultdict(int)$
for {y} in {u}:
    c[$ {y}||{y} > {e}||int({y})||{n}$] += $1||2||{n}$
{a} = len(c) + c[{e}]
{b} = $sum(c.values())||max(c.values())||c.get({e}, -1)||c.most_common(1)[0][1]||c[{x}[0]]||len(c)$
---
s = $set()||{{1, 2}}||set({u})||{{z for z in {x} if z > {e}}}$
for {y} in {x}:
    $s.add({y})||s.discard({y})||s.add(int({y}))||s |= {{{y}}}||s.update([{y}, 1])||s.add({y} > 0)$
    {a} += {y} in s
{b} = $len(s)||min(s)||max(s)||sorted(s)[0]||len(s & {{0, 1}})||s <= {{0, 1, 2}}||\
len(s - set({u}))||1 in s$
---
h = []
for {i}, {y} in enumerate({x}):
    heapq.heappush(h, $ {y}||({y}, {i})||(-{y}, {i})||-{y}$)
    if len(h) > {n}:
        heapq.$heappop(h)||heapreplace(h, h[0])||heappushpop(h, h[-1])$
{a} = len(h)
{b} = h[0] == heapq.heappop(h)
---
{l} = []
for {y} in {x}:
    $bisect.insort({l}, {y})||bisect.insort_left({l}, {y})||\
{l}.insert(bisect.bisect({l}, {y}), {y})$
    {a} = bisect.$bisect_left||bisect_right||bisect$({l}, {e})
{b} = {l}[$0||-1||len({l}) // 2$]
---
q = deque($||{x}||{x}, maxlen=2||maxlen={n}||[1.0, 2.0], 3$)
for {y} in {u}:
    q.$append({y})||appendleft({y})||append({y} * 2)$
    if len(q) > 3:
        {a} = q.$pop()||popleft()$
{b} = $len(q)||q[0]||q[-1]||sum(q)||max(q)||q[{n}]$
---
{l} = sorted($zip({x}, range(9))||enumerate({x})||[(z > {e}, z) for z in {x}]||\
[(z, -z) for z in {x}]$)
{a} = {l}[$0||-1||{n}$][$0||1$]
{l} = sorted(range(len({x})), key=lambda k: $ {x}[k]||-{x}[k]||({x}[k] > 0, k)||{x}[k] % 2$)
{b} = {l}[$0||-1$]
---
for {i}, {y} in enumerate({x}):
    try:
        {a} += $math.log({y})||1 / float({y})||int({y})||{x}[{i} * 2]||math.sqrt({y})||\
{n} // int({y})$
        if {y} > {e}:
            $continue||break||pass||raise ValueError$
        {b} += 1
    except ($ValueError, ZeroDivisionError||ArithmeticError, ValueError||\
IndexError, OverflowError$):
        {b} += 10
        $continue||break||pass||{a} = 0$
    else:
        {b} += 100
    finally:
        {b} += $1000||{i}||1$
---
for {y} in {x}:
    match $ {y} > {e}, {n} % 2||int({y} > 0), 1||({y} > 0, {y} < {e})$:
        case $True, 0||1, 1||(True, True)$:
            {a} += 1
        case $ (False, _)||0, _||_, 1||p, q$:
            {a} += 10
        case _:
            {b} += 1
---
def g(p, q=$1||0.5||{e}$, *r, $s=2||s=0.5$):
    nonlocal {a}
    {a} += $1||p||q||len(r)$
    return $p + q||p * s||q - p||len(r) + p||max(p, q)$
for {y} in {x}:
    {b} += g($ {y}||{y}, 2||*({y}, 1)||{y}, 1, 2, 3||{y}, s=3||q={y}, p=1$)
---
{n2} = ""
for {i}, {y} in enumerate({x}):
    {n2} $+=||= {n2} +||= "x" +$ "$a||ab||b,||$" if {y} > {e} else $"b"||"-"||str({i})||\
"ab"[{i} % 2]$
{a} = $len({n2})||{n2}.count("a")||{n2}.find("b")||len({n2}.split("b"))||{n2} < "b"||ord({n2}[-1])$
{b} = $"ab" in {n2}||{n2}.replace("a", "cd").count("d")||{n2}[::-1].find("a")||\
{n2}[1:] == {n2}[:-1]$
---
{n2} = "".join("$ab||+-||01$"[z > {e}] for z in {x})
{a} = $len(set({n2}))||{n2} == {n2}[::-1]||max(map(len, {n2}.split("a")))||{n2}.startswith("a")$
{b} = sum(p != q for p, q in zip({n2}, {n2}[1:]))
---
{l} = [[$0||0.0||{e}$] * 3 for _ in range(len({x}))]
for {i}, {y} in enumerate({x}):
    {l}[{i}][$ {i} % 3||-1||{n} % 3$] $+=||=$ $1||{y}||{i}$
    {l}[{i} - 1][0] $+=||=$ $ {y}||{i}||{l}[{i}][1]$
{a} = $sum(map(sum, {l}))||{l}[0][0]||len({l})||max(r[0] for r in {l})||{l}[-1][2]$
{b} = len([z for r in {l} for z in r if z > {e}])
---
if (n9 := $len({x})||int({n})||sum({x})$) > 1:
    {a} = n9
{l} = [n8 for {y} in {x} if (n8 := {y} * 2) $>||<$ {e}]
{b} = len({l})
---
{w} = {x}[$ {n}:||:{n}||{n}:{n}||::-1$]
while len({w}) > 1:
    {w} = $ {w}[1:]||{w}[:-1]||{w}[::2]||np.diff({w})||{w}[:-1] + {w}[1:]||{w}[{w} > {w}[0]]$
    {a} += 1
    if {a} > 9:
        break
else:
    {b} = 5
{b} += len({w})
---
for {y} in np.$reshape({x}, (-1, 1))||vstack(({x}, {x}))||outer({x}, TAB)||\
column_stack(({x}, {x}))$:
    {a} += {y}[$0||-1$]
    {b} += {y}.$sum()||max()||argmax()||shape[0]||mean()$
---
for {i}, {n2} in $groupby({x})||groupby({x}, lambda z: z > {e})||groupby(mask)$:
    {a} += $1||len(list({n2}))||sum({n2})||next({n2})||sum(1 for _ in {n2})$
    if {i} $> 0||== {e}||$:
        {b} += 1
---
{a} = 0.0 * $1||{e}$
for {y} in {x}:
    {a} = $max({a}, {y})||min({a}, {y}, 0)||{a} if {a} > {y} else {y}||{a} * 0.5 + {y}||{y} or {a}$
    {b} $+=||^=||\\|=||-=$ {y} > {e}
---
for {i} in range($ {n}||len({x})||0, len({x}), 2||len({x}) - 1, -1, -1||-{n}, {n}||5, 0, -2$):
    {a} += {x}[{i} $||// 2||- 1||% len({x})$]
    if {i} $==||>$ {n}:
        $break||continue||pass$
    {b} = {i}
else:
    {b} += 50
""")


class ShortProgram(Program):
    """Draws one program."""

    def draw(self) -> str:
        r = self.r
        self.tables = []
        if self.ndim == 2:
            self.vectors = ["v"]
            self.line(f"v = v[{self.pick('0', '-1', ':, 0', '0, ::2', 'len(v) // 2')}]")
        self.line(f"mask, mask2 = {self.some()} > {self.literal()}, v < {self.literal()}")
        for _ in range(r.choice([1, 1, 2, 2, 3])):
            kind = r.randrange(5)
            if kind < 2:
                x = self.new_number()
                self.line(f"{x} = {self.filled(r.choice(SINGLE + NUMBERS))}")
            elif kind == 2:
                w = self.name("w")
                self.line(f"{w} = {self.filled(r.choice(ARRAYS + OF_ARRAYS))}")
                self.vectors.append(w)
            else:
                self.written(r.choice([*WRITTEN, *WAYS, *WAYS, *IDIOMS]))
        self.line("for _ in v:\n        pass")
        self.line(f"return {self.given_back()}")
        used = [f"{k} = {x}" for k, x in CONSTANTS.items()]
        head = "import functools\nimport operator\n" + HEAD
        return head + "\n".join([*used, "", "def f(v):", *self.lines]) + "\n"

    def given_back(self) -> str:
        """What a program returns."""
        names = self.numbers or ["0"]
        a, b = self.r.choice(names), self.r.choice(names)
        if self.chance(0.3):
            return self.filled(self.r.choice(ARRAYS + OF_ARRAYS))
        if self.vectors[1:] and self.chance(0.5):
            return self.vectors[-1]
        single = self.filled(self.r.choice(SINGLE + NUMBERS))
        return self.pick(a, f"{a}, {b}", f"[{a}, {b}]", f"{a} + {b}", single, single)

    def some(self) -> str:
        """An array, often a part of one, which may be empty."""
        x = self.r.choice(self.vectors[-2:]) if self.chance(0.7) else "v"
        if self.chance(0.5):
            return x
        n = self.small()
        return self.pick(
            f"{x}[1:]", f"{x}[:-1]", f"{x}[::-1]", f"{x}[::2]", f"{x}[{n}:{n}]", f"{x}[:1]",
            f"{x}[{n}:]", f"{x}[-1:]", f"np.abs({x})", f"({x} * 0)", f"({x} > {self.literal()})",
            f"{x}.astype(np.{self.r.choice(SCALARS)})", f"({x} - {x}[0])", f"np.sort({x})",
            f"{x}[{x} > {self.literal()}]", f"np.arange({n})", f"[z for z in {x}]", "TAB",
            f"np.concatenate(({x}, -{x}))", f"np.tile({x}, 40)", f"({x} + 0.5)", f"list({x})",
        )  # fmt: skip

    def end(self) -> str:
        """A number, often an element."""
        x = self.r.choice(self.vectors[-2:])
        return self.pick(
            self.literal, self.literal, f"{x}[0]", f"{x}[-1]", *self.numbers[-2:],
            f"float({x}[0])", "0.1", "1", "0", f"{self.small()}", f"np.float32({self.literal()})",
        )  # fmt: skip

    def filled(self, text: str, **names: str) -> str:
        """A line of a table with what it is about."""
        text = re.sub(r"\$(.*?)\$", lambda m: self.r.choice(m[1].split("||")), text)
        text = text.replace("ufunc2", self.r.choice(TWO_OF_NUMPY))
        text = text.replace("ufunc", self.r.choice(ONE_OF_NUMPY))
        op, cmp = self.r.choice("+ - * / // % **".split()), self.r.choice("< <= > >= == !=".split())
        text = text.replace(" op ", f" {op} ").replace(" cmp ", f" {cmp} ").replace("\\|", "|")
        given = {"x": self.some, "y": self.some, "u": self.some, "n": self.small, "e": self.end}
        made = {k: f() for k, f in given.items()} | names
        return text.format(**made)

    def written(self, text: str) -> None:
        """Lines of a table."""
        a, b = self.new_number(), self.new_number()
        names = {k: self.name(k) for k in "iylw"} | {"a": a, "b": b, "n2": self.name("n")}
        if text in IDIOMS:
            names["n"] = names["n2"]
        names["t"] = self.pick("0", "0.5", "1", "-1")
        self.numbers = self.numbers[:-2]
        lines = self.filled(text.strip("\n"), **names).split("\n")
        self.numbers += [a, b]
        self.line(f"{a} = {b} = 0")
        for line in lines:
            self.line(line)
