"""Products of a matrix of weights and a value in registers, as text.

On tensor cores a product reads a left factor, which is a value rounded or split to 16
bits, and leaves its results as the next product's left factor wants them. Products of few
numbers, or to few, are plain multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...ir.rewrite import Region
from .fragments import MOST_TILES, Fragments, Value
from .packing import LONG_SUM, Constants, Packing, Piece, Product, Slots, laid_out, natural
from .target import Refused, Target

_WHOLE_RESULT = 2
"""A product of so few results is plain multiply-adds: splitting its factor would take more work."""
_MOST_STEPS = 16
"""Steps of 16 features that a product's left factor may have: what registers hold."""
_MOST_FACTORS = 128
"""Registers for the left factors of two products at once."""
_STAGE_BYTES = 32 << 10
"""Bytes of weights that are read at once where all of them do not fit in shared memory."""


class Products:
    """The text of products, and how their weights are packed.

    Parameters
    ----------
    fragments : Fragments
        The values that they read and make.
    target : Target
        What the kernel is written for.
    streams : bool
        Weights come from L2, chunk by chunk.
    store : callable
        Statements that write what is there of a result.

    Attributes
    ----------
    packing : Packing
        The products on tensor cores, by node.
    pieces : list of (int, Piece)
        The factors, by the byte where they lie; `bytes` are all of them.
    stage, spill : int
        Bytes of the largest chunk of weights, and, per thread, of left factors that registers
        do not hold.
    wide : dict
        Products whose results do not stay, and whether their chunks come twice with care.
    passed : set of int
        Regions that wide products took along.
    stored : bool
        Results were stored where they were computed.
    instructions : set of int
        Tiles of the instructions of wgmma.
    """

    def __init__(
        self,
        fragments: Fragments,
        target: Target,
        streams: bool,
        store: Callable[[Value], list[str]],
    ) -> None:
        self._fragments, self._target = fragments, target
        self._streams, self._store = streams, store
        self._queries, self._m = fragments.queries, fragments.m
        self._text, self._floats = fragments.text, fragments.floats
        self._ready: set[int] = set()  # those whose left factor is there already
        self.packing = Packing(target.core, target.precision)
        self.pieces: list[tuple[int, Piece]] = []
        self.bytes = self.stage = self.spill = 0
        self.wide: dict[int, bool] = {}
        self.passed: set[int] = set()
        self.stored = False
        self.instructions: set[int] = set()

    def write(self, i: int) -> None:
        """The product that is a node."""
        node = self._queries.graph.nodes[i]
        if self._queries.graph.nodes[node.args[0]].op != "const":
            raise Refused("weights that are not a constant")
        n = self._queries.size(i)
        if i in self._ready:
            self._tensor(i)
            return
        x = self._fragments.values[node.args[1]]
        if x.slots is None:
            self._from_whole(i, x, n)
        elif n <= _WHOLE_RESULT:
            self._to_whole(i, x, n)
        else:
            self._left(i, x, self._make(i, x.slots))
            self._tensor(i)

    def _from_whole(self, i: int, x: Value, n: int) -> None:
        """Plain multiply-adds from few numbers."""
        w = self._queries.graph.nodes[i].args[0]
        bias = self._queries.bias(i)
        slots = None if n <= _WHOLE_RESULT else natural(n)
        v = self._fragments.declare(i, n, slots)
        count = n if slots is None else len(slots)

        def piece(value: Constants) -> np.ndarray:
            columns = value(w).T.astype(np.float32)
            return columns if slots is None else np.stack([laid_out(c, slots) for c in columns])

        at = self._floats.add(x.size * count, piece)
        start = "0" if bias is None else self._fragments.number(bias[1], v)
        place = "k" if slots is None else "8 * j + 2 * t + (e & 1)"
        half = "h" if slots is None else "e >> 1"
        self._fragments.each(
            v,
            [
                f"float s = {start};",
                f"XP_ALL for (int c = 0; c < {x.size}; ++c)",
                f"  s = fmaf({x.name}[m][c][{half}], f[{at} + c * {count} + {place}], s);",
                f"{self._fragments.element(v, v)} = s;",
            ],
        )
        self._mask_infinity(v)

    def _to_whole(self, i: int, x: Value, n: int) -> None:
        """Plain multiply-adds to few numbers, summed over the lanes of a slice.

        At the end of a network the sums are dealt to the lanes, which then share what is
        left to do.
        """
        w = self._queries.graph.nodes[i].args[0]
        bias, m = self._queries.bias(i), self._m
        dealt = m % 2 == 0 and self._queries.ends(i)
        v = self._fragments.declare(i, n, None, dealt=dealt)
        slots = x.slots
        assert slots is not None

        def piece(value: Constants) -> np.ndarray:
            return np.stack([laid_out(row, slots) for row in value(w).astype(np.float32)])

        at = self._floats.add(n * len(slots), piece)
        start = "0" if bias is None else self._fragments.number(bias[1], v)
        self._text.emit(
            f"XP_ALL for (int k = 0; k < {n}; ++k) {{",
            f"  float s[{2 * m}] = {{}};",
            f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j) {{",
            f"    const float2 w = *(const float2*)(f + {at} + k * {len(slots)} + 8 * j + 2 * t);",
            f"    XP_ALL for (int p = 0; p < {2 * m}; ++p)",
            f"      s[p] = fmaf({x.name}[p / 2][j][p % 2 * 2 + 1], w.y, "
            f"fmaf({x.name}[p / 2][j][p % 2 * 2], w.x, s[p]));",
            "  }",
        )
        if dealt:
            self._text.emit(
                f"  xp_deal<{2 * m}>(s, t);",
                f"  XP_ALL for (int q = 0; q < {m // 2}; ++q) {v.name}[q][k] = s[q] + {start};",
                "}",
            )
            return
        self._text.emit(
            f"  XP_ALL for (int p = 0; p < {2 * m}; ++p)",
            f"    {v.name}[p / 2][k][p % 2] = xp_sum4(s[p]) + {start};",
            "}",
        )

    def _make(self, i: int, inputs: Slots) -> Product:
        """A product on tensor cores: where its weights lie, and how they come."""
        packing, n = self.packing, self._queries.size(i)
        inputs += (-1,) * (-len(inputs) % 16)
        steps, tiles = len(inputs) // 16, -(-n // 8)
        if steps > _MOST_STEPS:
            raise Refused(f"a product of {len(inputs)} numbers does not fit in registers")
        most = tiles
        if tiles > MOST_TILES:
            most = 8 if steps <= 8 else 4  # results that registers hold beside the left factor
        if self._streams and self._target.core == "wgmma":
            most = min(most, _STAGE_BYTES // (256 * packing.parts * steps))
        chunk = tiles
        if tiles > most:  # in whole steps of the next product; what is padded is computed too
            padded = {c: -(-tiles // c) * (c + 0.5) for c in range(2, most + 1, 2)}
            chunk = min(padded, key=padded.__getitem__)
        slots = natural(n, chunk * -(-tiles // chunk))
        bias = self._queries.bias(i)
        weights = self._queries.graph.nodes[i].args[0]
        product = Product(
            weights,
            None if bias is None else bias[1],
            inputs,
            slots,
            chunk,
            final=self._queries.final(i),
            rectified=self._queries.rectified(i),
        )
        source = self._queries.folds(self._queries.graph.nodes[i].args[1])
        packing.products[i] = product
        self.bytes = -(-self.bytes // 128) * 128
        product.factors_at = self.bytes
        self.bytes += packing.bytes_of(product)
        self.stage = max(self.stage, packing.bytes_of(product) // product.chunks)
        self.pieces.append((product.factors_at, partial(packing.factors, product)))
        per = 2 if packing.scaled else 1
        product.affine_at = self._floats.add(per * len(slots), partial(packing.affine, product))
        if packing.scaled and source in packing.products:
            product.follows = packing.products[source]
        elif packing.scaled:
            product.scale_at = self._floats.add(len(inputs), partial(packing.scale, product))
        return product

    def _declare_left(self, i: int, product: Product) -> None:
        """Registers for the left factor of a product."""
        both = self.packing.parts == 2
        shape = f"[{self._m}][{product.steps}][4]"
        self._text.emit(f"u32 p{i}_hi{shape}" + (f", p{i}_lo{shape};" if both else ";"))
        if self.packing.scaled:
            self._text.care(f"float p{i}_back[{self._m}][2];")

    def _left(self, i: int, x: Value, product: Product) -> None:
        """Round or split a value that is there as a whole."""
        self._declare_left(i, product)
        self._text.emit(f"XP_ALL for (int m = 0; m < {self._m}; ++m) {{")
        hi, lo = f"p{i}_hi[m]", f"p{i}_lo[m]"
        source = self._rounded(x, product, hi, lo)
        if self.packing.scaled:
            both = self.packing.parts == 2
            self._text.care(
                f"xp_into_range<{x.tiles}, {str(both).lower()}>"
                f"({source}, {hi}, {lo if both else hi}, p{i}_back[m]);",
            )
        self._text.emit("}")

    def _rounded(self, x: Value, product: Product, hi: str, lo: str, *, care: bool = True) -> str:
        """Write factors of what is there of a value; the name of its numbers, scaled."""
        source, place = f"{x.name}[m]", self._fragments.place
        if product.scale_at >= 0:
            self._text.emit(
                f"float scaled[{x.tiles}][4];",
                f"XP_ALL for (int j = 0; j < {x.tiles}; ++j)",
                "  XP_ALL for (int e = 0; e < 4; ++e)",
                f"    scaled[j][e] = {source}[j][e] * f[{product.scale_at} + {place}];",
            )
            source = "scaled"
        write = self._text.emit if care else self._text.trusting
        if self.packing.parts == 2:
            write(f"xp_split<{x.tiles}>({source}, {hi}, {lo});")
        else:
            bf16 = str(not self.packing.scaled).lower()
            write(f"xp_round<{x.tiles}, {bf16}>({source}, {hi});")
            if self.packing.scaled:  # of one product, infinity need not become NaN
                self._text.trusting(f"xp_see<{-(-x.tiles // 2)}>(seen, {hi});")
        return source

    def _tensor(self, i: int) -> None:
        """The product itself, when its left factor is there."""
        product, n = self.packing.products[i], self._queries.size(i)
        if -(-n // 8) > MOST_TILES:
            self._wide(i, product)
            return
        v = self._fragments.declare(i, n, product.outputs)
        for c in range(product.chunks):
            d = f"{v.name}[m]"
            if product.chunks > 1:
                d = f"(*(float (*)[{product.chunk}][4])&{v.name}[m][{c * product.chunk}])"
            self._multiply(i, product, d, str(c))
        self._finish_product(i, product, v)

    def _multiply(self, i: int, product: Product, d: str, chunk: str) -> None:
        """A chunk of results: sums on tensor cores, the small terms first."""
        parts, all_m = self.packing.parts, f"XP_ALL for (int m = 0; m < {self._m}; ++m)"
        dtype = "f16" if self.packing.scaled else "bf16"
        T, K = product.chunk, product.steps
        if self._target.core == "mma":
            vector = "uint4" if parts == 2 else "uint2"
            half = -(-K // 2) if K > LONG_SUM and parts == 2 else K
            self._text.emit(
                f"XP_ALL for (int j = 0; j < {T}; ++j) {{",
                f"  float big[{self._m}][4] = {{}}, small[{self._m}][4] = {{}};",
                f"  float rest[{self._m}][4] = {{}};",
                f"  const {vector}* const w = (const {vector}*)(factors + {product.factors_at})"
                f" + ({chunk} * {T} + j) * {K * 32} + lane;",
                f"  XP_ALL for (int s = 0; s < {K}; ++s) {{",
                f"    const {vector} q = w[s * 32];",
                f"    {all_m} {{",
            )
            if parts == 2:
                self._text.emit(
                    f"      xp_mma_{dtype}(small[m], p{i}_lo[m][s], q.x, q.y);",
                    f"      xp_mma_{dtype}(small[m], p{i}_hi[m][s], q.z, q.w);",
                )
            self._text.emit(
                f"      xp_mma_{dtype}(s < {half} ? big[m] : rest[m], p{i}_hi[m][s], q.x, q.y);",
                "    }",
                "  }",
                f"  {all_m} XP_ALL for (int e = 0; e < 4; ++e)",
                f"    {d}[j][e] = big[m][e] + (small[m][e] + rest[m][e]);",
                "}",
            )
            return
        self.instructions.add(T)
        part, step = K * T * 256 >> 4, T * 256 >> 4  # in units of 16 bytes
        start = f"factors_at + {product.factors_at >> 4} + {chunk} * {part * parts}"
        if self._streams:
            start = "ring_at + stage * (XP_STAGE_BYTES >> 4)"
        # name of the left factor, where the right one is, steps, the sum, whether it starts anew
        terms = [("hi", 0, 0, K, d, True)]
        halves = K > LONG_SUM and parts == 2
        if parts == 2:
            terms = [("lo", 0, 0, K, d, True), ("hi", part, 0, K, d, False)]
            terms.append(("hi", 0, 0, K // 2 if halves else K, d, False))
            if halves:
                terms.append(("hi", 0, K // 2, K, "rest[m]", True))
        self._text.emit("{", f"const u64 w = {start};")
        if halves:
            self._text.emit(f"float rest[{self._m}][{T}][4];")
        if self._streams:
            self._text.emit("xp_await(xp_full + stage, phase);")
        self._text.emit("xp_begin();", f"{all_m} {{")
        for name, offset, first, stop, total, anew in terms:
            more = f"s > {first}" if anew else "1"
            self._text.emit(
                f"XP_ALL for (int s = {first}; s < {stop}; ++s) xp_wgmma_{dtype}("
                f"{total}, p{i}_{name}[m][s], w + {offset} + s * {step}, {more});"
            )
        self._text.emit("}", "xp_commit();", "xp_wait<0>();", f"{all_m} xp_hold({d});")
        if halves:
            self._text.emit(
                f"{all_m} {{",
                "xp_hold(rest[m]);",
                f"XP_ALL for (int j = 0; j < {T}; ++j)",
                f"  XP_ALL for (int e = 0; e < 4; ++e) {d}[j][e] += rest[m][j][e];",
                "}",
            )
        if self._streams:
            self._text.emit(
                "if (lane == 0) xp_release(xp_empty + stage);", "xp_next<XP_STAGES>(stage, phase);"
            )
        self._text.emit("}")

    def _finish_product(self, i: int, product: Product, v: Value) -> None:
        """Take the scales out of results, and add the bias."""
        all_m = f"XP_ALL for (int m = 0; m < {self._m}; ++m)"
        tile = "(j + first)" if self._fragments.window else "j"
        at, name = product.affine_at, v.name
        if self.packing.scaled:
            scale = "e & 1 ? c.y : c.x"
            self._text.emit(
                f"XP_ALL for (int j = 0; j < {v.tiles}; ++j) {{",
                f"  const float4 c = *(const float4*)(f + {at} + 16 * {tile} + 4 * t);",
                f"  {all_m} XP_ALL for (int e = 0; e < 4; ++e) {{",
                f"    float s = {name}[m][j][e], b = e & 1 ? c.w : c.z;",
            )
            self._text.trusting(f"    {name}[m][j][e] = fmaf(s, {scale}, b);")
            # first the scale, then the way back: the other order could overflow
            self._text.care(f"    {name}[m][j][e] = fmaf(s * ({scale}), p{i}_back[m][e >> 1], b);")
            self._text.emit("  }", "}")
        elif product.bias is not None:
            self._text.emit(
                f"XP_ALL for (int j = 0; j < {v.tiles}; ++j) {{",
                f"  const float2 c = *(const float2*)(f + {at} + 8 * {tile} + 2 * t);",
                f"  {all_m} XP_ALL for (int e = 0; e < 4; ++e)",
                f"    {name}[m][j][e] += e & 1 ? c.y : c.x;",
                "}",
            )
        self._mask_infinity(v)

    def _mask_infinity(self, v: Value) -> None:
        """Infinity times the 0 of a place without a feature is NaN, and would spread."""
        self._fragments.mask(v, "0", self._text.care if self.packing.scaled else self._text.emit)

    def _wide(self, i: int, product: Product) -> None:
        """A product whose results registers do not hold: each chunk goes on as it comes.

        It becomes a part of the next product's left factor, or is stored.
        """
        region, following = self._onward(i)
        T = product.chunk
        spilled = following is not None and self._declare_ahead(following, product)
        twice = following is not None and self.packing.scaled
        self.wide[i] = twice
        if twice:
            self._text.care(
                "{ float top[2] = {}, factor[2];",
                "bool infinite[2];",
                "#pragma unroll 1\nfor (int pass = 0; pass < 2; ++pass) {",
            )
        unroll = "#pragma unroll 1\n" if following is None or spilled else "XP_ALL "
        self._text.emit(f"{unroll}for (int chunk = 0; chunk < {product.chunks}; ++chunk) {{")
        self._text.emit(f"const int first = chunk * {T}, m = 0;")
        self._fragments.window = T
        v = self._fragments.declare(i, self._queries.size(i), product.outputs)
        self._multiply(i, product, f"{v.name}[0]", "chunk")
        self._finish_product(i, product, v)
        if region is not None:
            self._fragments.region(region)
            self.passed.add(region.out)
            v = self._fragments.values[region.out]
        if following is None:
            self._text.trusting(
                f"XP_ALL for (int j = 0; j < {T}; ++j)",
                f"  XP_ALL for (int e = 0; e < 4; ++e) odd = fmaf({v.name}[0][j][e], 0, odd);",
            )
            self._text.emit(*self._store(v))
            self.stored = True
        else:
            self._keep(following, v, spilled)
        self._fragments.window = 0
        self._text.emit("}")
        if twice:
            self._text.care(
                "if (pass == 0) {",
                "  xp_over_lanes(top);",
                f"  xp_factor(top, factor, p{following}_back[0], infinite);",
                "}",
                "} }",
            )
        if following is not None and spilled:
            self._fetch_left(following)

    def _declare_ahead(self, following: int, product: Product) -> bool:
        """Room for the left factor that a wide product fills: whether it is shared memory."""
        ahead = self._make(following, product.outputs)
        self._ready.add(following)
        parts = self.packing.parts
        if 4 * parts * (product.steps + ahead.steps) <= _MOST_FACTORS:
            self._declare_left(following, ahead)
            return False
        self.spill = max(self.spill, 16 * parts * ahead.steps)
        if self.packing.scaled:
            self._text.care(f"float p{following}_back[1][2];")
        return True

    def _keep(self, following: int, v: Value, spilled: bool) -> None:
        """Make a chunk of a wide product a part of the next product's left factor."""
        T, parts, both = self._fragments.window, self.packing.parts, self.packing.parts == 2
        half = f"[{T // 2}][4]"
        self._text.emit(f"u32 hi{half}" + (f", lo{half};" if both else ";"))
        scaled = self.packing.scaled
        source = self._rounded(v, self.packing.products[following], "hi", "lo", care=not scaled)
        if scaled:
            self._text.care(
                "if (pass == 0) {",
                f"  xp_top<{T}>({source}, top);",
                "  continue;",
                "}",
                f"xp_split_by<{T}, {str(both).lower()}>"
                f"({source}, hi, {'lo' if both else 'hi'}, factor, infinite);",
            )
        for part, name in enumerate(("hi", "lo")[:parts]):
            self._text.emit(f"XP_ALL for (int s = 0; s < {T // 2}; ++s)")
            if spilled:
                place = f"((first / 2 + s) * {parts} + {part}) * XP_TAKERS + threadIdx.x"
                self._text.emit(
                    f"  spill[{place}] = "
                    f"make_uint4({name}[s][0], {name}[s][1], {name}[s][2], {name}[s][3]);"
                )
            else:
                self._text.emit(
                    "  XP_ALL for (int c = 0; c < 4; ++c)",
                    f"    p{following}_{name}[0][first / 2 + s][c] = {name}[s][c];",
                )

    def _fetch_left(self, i: int) -> None:
        """Read a left factor back from shared memory."""
        steps, parts = self.packing.products[i].steps, self.packing.parts
        names = ("hi", "lo")[:parts]
        self._text.emit("u32 " + ", ".join(f"p{i}_{name}[1][{steps}][4]" for name in names) + ";")
        self._text.emit(f"XP_ALL for (int s = 0; s < {steps}; ++s) {{")
        for part, name in enumerate(names):
            q = f"p{i}_{name}[0][s]"
            self._text.emit(
                f"{{ const uint4 c = spill[(s * {parts} + {part}) * XP_TAKERS + threadIdx.x];",
                f"{q}[0] = c.x; {q}[1] = c.y; {q}[2] = c.z; {q}[3] = c.w; }}",
            )
        self._text.emit("}")

    def _onward(self, i: int) -> tuple[Region | None, int | None]:
        """The region after a wide product, and the product after that."""
        region = self._queries.reader(i)
        out = i if region is None else region.out
        if out == self._queries.graph.out:
            return region, None
        after = self._queries.uses.get(out, [])
        if len(after) != 1 or not self._queries.affine(after[0]):
            raise Refused(f"a value of {self._queries.size(i)} numbers does not fit in registers")
        return region, after[0]
