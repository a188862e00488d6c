"""Calls of library functions, and what people do with lists, deques, dicts and sets, as texts."""


def _split(table: str) -> list[str]:
    return [x.strip() for x in table.replace("\n", "|").split("|") if x.strip()]


OF_ARRAYS = _split("""
np.sort({x}) | np.argsort({x}, kind="stable") | np.argsort({x}) | np.cumsum({x}) | np.cumprod({x})
np.percentile({x}, [25, {n}, 75]) | np.quantile({x}, (0.1, 0.5)) | np.clip({x}, -1, {e})
np.clip({x}, 0, None) | np.round({x}, {n}) | np.unique({x}) | np.convolve({x}, {y})
np.bincount(np.arange(len({x})) % 3, weights={x}) | np.bincount(np.abs({x}).astype(int) % 5)
np.histogram({x}, 4)[0] | np.histogram({x}, 3, (-1, {n}))[0] | np.digitize({x}, TAB[::-1])
np.convolve({x}, {y}, "same") | np.correlate({x}, {y}) | np.maximum.accumulate({x})
np.roll({x}, {n}) | np.flip({x}) | np.concatenate(({x}, {y})) | np.append({x}, {e})
np.linspace(0, {e}, {n}) | np.arange(0, {n}, 0.3) | np.arange({n}, -1, -2) | np.tile({x}, {n})
np.repeat({x}, 2) | np.gradient({x}) | np.isclose({x}, {y}) | np.where({x} > {e}, {x}, 0)
np.where({x} > 0, {x}, {y}) | np.where({x} < {e})[0] | np.nonzero({x})[0] | {x}.astype(int)
{x}.astype(np.float32) | np.delete({x}, {n}) | np.insert({x}, {n}, {e}) | np.hstack([{x}, {y}])
np.interp({x}, TAB[::-1], TAB) | np.searchsorted(TAB[::-1], {x}) | np.abs({x}) | np.diff({x})
np.polyval(TAB, {x}) | {x}.clip(min={e}) | np.vstack(({x}, {x}))[0] | np.outer({x}, {y})[0]
""")
NUMBERS = _split("""
np.dot({x}, {x}) | np.dot({x}, {y}) | {x} @ {y} | np.percentile({x}, {n} * 20) | np.ptp({x})
np.quantile({x}, 0.25) | np.median({x}) | np.nanmean({x}) | np.nansum({x}) | np.nanstd({x})
np.nanmax({x}) | np.nanmin({x}) | np.nanmedian({x}) | np.trapezoid({x}) | np.trapezoid({x}, dx=0.5)
np.clip({e}, 0, 1) | np.round({e}, 1) | np.isclose({e}, {x}[0]) | np.allclose({x}, {y})
np.digitize({e}, TAB[::-1]) | np.polyval(TAB, {e}) | len(np.unique({x})) | np.mean({x})
np.std({x}) | np.var({x}, ddof=1) | np.mean({x} > {e}) | np.sum({x} > 0) | np.argmax({x})
max(0, {e}) | min({n}, {e}, 1.5) | max({e}, {n}, {x}[0]) | max(accumulate({x})) | sum(map(abs, {x}))
max(accumulate({x}, max)) | len(list(groupby({x} > 0))) | next((z for z in {x} if z > {e}), {n})
sum(islice({x}, {n})) | next(iter({x})) | sorted(set({x}))[0] | sum({{int(z) for z in {x}}})
len(list(takewhile(lambda z: z > {e}, {x}))) | len(set({x}) & set({y})) | sum(chain({x}, {y}))
np.reshape({x}, (1, -1))[0, 0] | next(z for z in {x} if z > {e})
np.prod({x}) | np.any({x} > {e}) | np.count_nonzero({x}) | np.max({x})
""")
OF_PYTHON = _split("""
statistics.fmean({x}) | statistics.mean({x}) | statistics.stdev({x}) | statistics.pvariance({x})
statistics.variance([{e} * z for z in {x}]) | statistics.pstdev({x}[1:]) | statistics.mean([{e}, 1])
statistics.median_low({x}) | statistics.median_high(list({x})) | statistics.mode([*{x}, 0.5])
math.isclose({e}, {x}[0], rel_tol=0.5) | math.isclose({e}, {n}) | math.modf({e})[0]
math.modf({e})[1] | sum(heapq.nlargest({n}, {x})) | heapq.nsmallest(2, {x})[-1]
heapq.nlargest(1, {x}, key=abs)[0] | sum(compress({x}, {x} > {e})) | operator.sub({e}, {n})
operator.mod({e}, 3) | operator.truediv({n}, 4) | operator.itemgetter(-1)({x})
operator.itemgetter(0, 1)({x})[1] | max(enumerate({x}), key=operator.itemgetter(1))[0]
list(heapq.merge(sorted({x}), {y}))[-1] | operator.lt({e}, {x}[0]) | operator.and_({n}, 6)
math.hypot({e}, {n}) | math.hypot({e}, {x}[0], 1) | math.dist(({e}, 1), ({n}, {x}[0]))
math.dist({x}, {y}) | math.frexp({e})[0] + math.frexp({n})[1] | math.ldexp({e}, {n}) | math.ulp({e})
math.remainder({e}, 0.75) | math.nextafter({e}, {n}) | ({n}).bit_length() | ({n}).bit_count()
bin({n}).count("1") | ({e}).is_integer() | sum(runs({x}, {e})) | max(runs({x}, {n}), default=-1)
len(list(runs({x}, {e}))) + next(runs({y}, {e}), 7) | halved({n}) | halved(float({e})) | even({n})
odd(len({x})) | sum(chain.from_iterable([{x}, {x}[1:]])) | list(set(runs({x}, {e})))[-1]
""")
"""What only functions of NumPy's arrays have."""
IDIOMS_OF_PYTHON = [
    """
for {n} in runs({x}, {t}):
    {a} = (3 * {a} + {n}) % 1001
""",
    """
{w} = runs({x}, 1)
{b} = next({w}, -1)
{i} = sum({w})
""",
    """
{l} = ({y} * {y} for {y} in {x} if {y} > {t})
{b} = next({l}, 0.0)
for {n} in {l}:
    {a} = 0.5 * {a} - {n}
""",
    """
{w} = set()
for {y} in {x}:
    if abs({y}) < 99:
        {w}.add(int(3 * {y}))
for {n} in {w}:
    {a} = (3 * {a} + {n}) % 1001
for {i}, {n} in enumerate(list({w})):
    {b} = ({b} + {i} * {n}) % 997
""",
    """
{w} = {{int(abs({y})) % 9 for {y} in {x} if abs({y}) < 99}}
if {x}[0] > {t}:
    {w}.discard({x}[0])
for {n} in {w} if {x}[0] > {t} else {w} | {{1}}:
    {a} = (3 * {a} + {n}) % 1001
{b} = len({w})
""",
    """
{w} = defaultdict(list)
for {i}, {y} in enumerate({x}):
    if abs({y}) < 99:
        {w}[int({y})].append({i})
for {n}, {l} in {w}.items():
    {a} = (3 * {a} + {n} * len({l}) + {l}[0]) % 1001
{b} = len({w}[7])
""",
    """
{w} = Counter(int({y}) for {y} in {x} if abs({y}) < 99)
for {n}, {i} in {w}.most_common(3):
    {a} = (5 * {a} + {n} * {i}) % 1001
{b} = max({w}, key={w}.get, default=0) if len({w}) > 1 else 5
""",
    """
for {i}, {y} in zip(count(2, 3), {x}):
    {a} = 0.5 * {a} + {i} * {y}
for {y}, {n} in zip_longest([1.5, 2.5], [float({y}) for {y} in {x}], fillvalue=0.5):
    {b} = 0.5 * {b} + {y} * {n}
""",
    """
def {w}(k):
    return {x}[0] if k <= 0 else 0.5 * {l}(k - 1) + k
def {l}(k):
    return 1.0 if k <= 0 else {w}(k - 2) - {t}
{a} = {w}(len({x}) % 5)
{b} = {l}(3)
""",
    """
{a}, *{w} = {x}
*{l}, {b} = {w}
for {y} in {l}:
    {a} = 0.5 * {a} + {y}
{b} += len({w})
""",
    """
for {i}, {n}, {y} in permutations(range(4), 3):
    {a} = ({a} * 2 + {i} - {n} * {y}) % 97
({i}, *{l}), {n} = ({n}, 1, 2), len({x})
{b} = sum({l}) + {i}
""",
    """
{l} = sorted([({y}, {i}) for {i}, {y} in enumerate({x})], key=operator.itemgetter(1), reverse=True)
for {y}, {i} in {l}:
    {a} += operator.mul({y}, operator.gt({y}, {t}))
    {b} = operator.xor({i}, 3)
""",
    """
for {y} in heapq.merge({x}, {x}[::-1]):
    {a} = operator.sub({y}, {a})
for {n} in range(2, len({x})):
    {b} = statistics.fmean({x}[:{n}]) if {x}[{n}] > {t} else statistics.median_low({x}[:{n}])
""",
]
IDIOMS = [
    """
{n} = int({x}[0]) & 255 if abs({x}[0]) < 1e9 else 7
while {n}:
    {n} &= {n} - 1
    {a} += 1
{b} = {n}
""",
    """
for {i}, {w} in groupby({x} > {t}):
    {n} = len(list({w}))
    if {i}:
        {a} = max({a}, {n})
{b} = sum(1 for {y} in pairwise({x}) if {y}[1] > {y}[0])
""",
    """
{w} = []
for {n} in accumulate({x}, lambda p, q: 0.5 * p + q):
    {w}.append({n})
{a} = {w}[-1]
{b} = len({w})
""",
    """
{w} = iter({x})
{a} = next({w})
for {y} in {w}:
    {b} += 1
    if {y} > {t}:
        break
{b} += 10 * sum(1 for _ in {w})
{b} += next({w}, 100)
""",
    """
{a} = 0.0
for {y}, {n} in combinations({x}[:5], 2):
    {a} += abs({y} - {n})
for {i}, {n} in product(range(len({x})), (0, 1)):
    {b} += {i} * {n}
""",
    """
{w} = set()
{l} = {{1, 2}}
for {y} in {x}:
    if {y} == {y}:
        {w}.add(int(max(-99, min({y}, 99))))
        {l} |= {{int(max(-9, min({y}, 9)))}}
for {n} in sorted({w} | {l}, reverse=True):
    {a} = 3 * {a} + {n}
{b} = sum({w}) + len({w} & {l}) - len({w} - {l}) + ({w} <= {l}) + max({l})
""",
    """
d = {{}}
for {y} in {x}:
    {n} = int({y}) % 5
    d[{n}] = d.get({n}, 0) + 1
for {i}, {n} in d.items():
    if {n} > {a}:
        {a} = {n}
        {b} = {i}
""",
    """
d = defaultdict(int)
for {i}, {y} in enumerate({x}):
    d[{i} % 3] += 1
    if {y} > {t}:
        d[{i}] -= 2
{a} = len(d)
{b} = d[0] + sum(d.values())
""",
    """
c = Counter([int({y}) for {y} in {x}])
{a} = c[0]
{b} = c.most_common(1)[0][1]
""",
    """
d = {{}}
for {i}, {y} in enumerate({x}):
    d[{y}] = {i}
    if {y} in d and {i} % 2:
        del d[{y}]
{a} = len(d)
{b} = d.get({x}[0], -1)
""",
    """
d = {{({i} % 2, {i} % 3): {i} for {i} in range(len({x}))}}
{a} = len(d)
{b} = d.get((0, 0), 5) + d.get((1, 1), 7)
""",
    """
s = set()
for {y} in {x}:
    {n} = int({y}) % 7
    if {n} in s:
        {a} += 1
    else:
        s.add({n})
    s.discard({n} - 1)
{b} = len(s)
""",
    """
q = deque()
for {y} in {x}:
    q.append({y})
    if len(q) > 2:
        {a} = q.popleft()
{b} = q[-1] if q else 0
""",
    """
q = deque(maxlen=2)
for {y} in {x}:
    {a} = q[0] if len(q) == 2 else {a}
    q.append({y})
{b} = len(q)
""",
    """
{l} = []
for {i}, {y} in enumerate({x}):
    while {l} and {l}[-1][1] > {y}:
        {n}, {b} = {l}.pop()
    {l}.append(({i}, {y}))
{a} = len({l})
""",
    """
h = []
for {i}, {y} in enumerate({x}):
    heapq.heappush(h, ({y}, {i}))
    if len(h) > 2:
        {b}, {a} = heapq.heappop(h)
""",
    """
h = list({x})
heapq.heapify(h)
{a} = heapq.heappop(h)
{b} = len(h)
""",
    """
{l} = []
for {y} in {x}:
    bisect.insort({l}, {y})
{a} = {l}[len({l}) // 2]
{b} = bisect.bisect_left({l}, {t})
""",
    """
{w} = [[0] * 3 for _ in range(len({x}))]
for {i}, {y} in enumerate({x}):
    {w}[{i}][{i} % 3] += 1
    if {y} > {t}:
        {w}[{i} - 1][0] = {i}
{a} = {w}[0][0]
{b} = sum([r[0] for r in {w}])
""",
    """
{w} = [[], [], []]
for {i}, {y} in enumerate({x}):
    {w}[{i} % 3].append({y})
{a} = len({w}[2])
{b} = {w}[0][-1]
""",
    """
{l} = [{y} for {y} in {x}]
{l}.insert(1, {x}[0])
{l}.reverse()
{l}.extend({l}[:2])
del {l}[0]
{a} = {l}.pop(0)
{b} = len({l} + {l}[::2])
""",
    """
{l} = [int({y}) % 4 for {y} in {x}]
{a} = {l}.count(1)
{b} = {l}.index({l}[-1])
if 3 in {l}:
    {l}.remove(3)
{l}.sort(reverse=True)
{n} = 0
for {y} in reversed({l}):
    {n} = {n} * 2 + {y}
{b} += {n} + ({l} == {l}[:])
""",
    """
{l} = sorted([({y}, {i}) for {i}, {y} in enumerate({x})])
{a} = {l}[0][1]
{b} = {l}[-1][0]
""",
]
