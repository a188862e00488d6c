"""Threads that stay in machine code: how they wait, and how they share the slices of a kernel.

A team is a block of memory: what is to be done, ranges of slices, and a slot for each worker, of
which the first is the caller's. Helpers are called as a tree: each one calls a few more before it
begins. Who has drawn all of its own range goes on with those of others, so nobody is waited for
who has not begun: a call of a helper is taken back where all is drawn.

A helper that was called again soon after its last work looks for the next call for a short time
before it sleeps; one that was not sleeps at once. So in vain it looks once after such calls.
"""

from __future__ import annotations

from .target import Target

STAY, BEGIN, TURN, JOIN, RUN = "stay", "begin", "turn", "join", "run"
"""The functions: what a helper does; call helpers; work as the caller; wait for helpers; all."""

# --- words of a team ------------------------------------------------------------------
KERNEL, COUNT, HELPERS, FIRST, END, PIECE, RANGES, SHARE = range(8)
"""The kernel, how many arguments it has, how many helpers are called; the slices, how many are
drawn at a time, in how many ranges they lie, and how many each of these has."""
START, STOP, UNTIL, SIZE, DRAWN = range(8, 13)
"""Which of a worker's words get where its piece starts, where it ends (twice), its size, and the
address of its pair of numbers."""
OWN = 13
"""Which words each worker has its own of, two of them: which, the first worker's, and the
difference."""
SPIN, TOLD, MOST, LEFT, WAITS = range(19, 24)
"""How long is looked before sleeping, in nanoseconds; whether a kernel set the second number of a
pair; until which slice the caller works; whether it has left some; whether it still waits."""
SLEEP, WAKE, CLOCK = range(24, 27)
"""Functions of the C library."""
SINCE = 27
"""When helpers were called."""
ARGUMENTS = 32
PAIR = 64
"""A worker's pair of numbers, counted from its first argument."""
NOWHERE = PAIR + 2
"""A word for what a kernel does not ask for."""
MOST_ARGUMENTS = PAIR
MOST_WORKERS = 128
_RANGE, RANGE = 8, 128
"""Words of a range, and where the first one lies: the next slice, and the end."""
_SLOT, _SLOTS = 128, RANGE + _RANGE * MOST_WORKERS
WORDS = _SLOTS + _SLOT * MOST_WORKERS

# --- words of a slot ------------------------------------------------------------------
GO, SAID, _STATE, TEAM, NUMBER, _SPINS, _ENDED, _OWED, _TIME, _OWN = (
    0,
    8,
    16,
    17,
    18,
    19,
    20,
    21,
    22,
    32,
)
"""Two semaphores first: what the worker sleeps at, and what the caller does that waits for it."""
IDLE, ASLEEP, CALLED, WORKING, AWAITED = range(5)
FAN = 4
"""How many others each worker calls."""


def slot(number: int) -> int:
    """Where the slot of a worker lies."""
    return _SLOTS + _SLOT * number


def range_of(number: int) -> int:
    """Where a range lies."""
    return RANGE + _RANGE * number


def helpers(target: Target) -> str:
    """The text of all functions."""
    arm = target.triple.startswith("aarch64")
    parts = (_NOW, _WORK, _CALL, _OTHERS, _STAY, _BEGIN, _TURN, _JOIN, _RUN)
    names = {k: v for k, v in globals().items() if isinstance(v, int)}
    text = "\n".join(parts)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(f"<{name}>", str(names[name]))
    name, kind, given = ("aarch64.hint", "i32", "i32 1") if arm else ("x86.sse2.pause", "", "")
    text = text.replace("<pause>", f"@llvm.{name}({given})")
    # no time is spent on it: it takes half as long to compile, and runs for less than a microsecond
    text = text.replace(" nounwind {", " nounwind noinline optnone {")
    return f"declare void @llvm.{name}({kind})\n{text}"


def _load(*words: str, of: str = "team") -> str:
    return "".join(
        f"  %p.{w.lower()} = getelementptr i64, ptr %{of}, i64 <{w}>\n"
        f"  %{w.lower()} = load i64, ptr %p.{w.lower()}, align 8\n"
        for w in words
    )


_NOW = """
define internal i64 @now(ptr %team, ptr %slot) nounwind {
  %p.clock = getelementptr ptr, ptr %team, i64 <CLOCK>
  %clock = load ptr, ptr %p.clock, align 8
  %p.time = getelementptr i64, ptr %slot, i64 <_TIME>
  %failed = call i32 %clock(i32 1, ptr %p.time)
  %seconds = load i64, ptr %p.time, align 8
  %p.rest = getelementptr i64, ptr %p.time, i64 1
  %rest = load i64, ptr %p.rest, align 8
  %all = mul i64 %seconds, 1000000000
  %now = add i64 %all, %rest
  ret i64 %now
}"""

_WORK = (
    f"""
define internal i64 @work(ptr %team, ptr %slot) nounwind {{
entry:
{_load("COUNT", "PIECE", "RANGES", "START", "STOP", "UNTIL", "SIZE", "DRAWN", "MOST")}
  %p.number = getelementptr i64, ptr %slot, i64 <NUMBER>
  %number = load i64, ptr %p.number, align 8
  %p.kernel = getelementptr ptr, ptr %team, i64 <KERNEL>
  %kernel = load ptr, ptr %p.kernel, align 8
  %from = getelementptr i64, ptr %team, i64 <ARGUMENTS>
  %own = getelementptr i64, ptr %slot, i64 <_OWN>
  %pair = getelementptr i64, ptr %own, i64 <PAIR>
  %p.told = getelementptr i64, ptr %pair, i64 1
  store i64 0, ptr %p.told, align 8
  br label %copy
copy:
  %k = phi i64 [0, %entry], [%k.next, %copy]
  %p.one = getelementptr i64, ptr %from, i64 %k
  %one = load i64, ptr %p.one, align 8
  %to.one = getelementptr i64, ptr %own, i64 %k
  store i64 %one, ptr %to.one, align 8
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %count
  br i1 %k.more, label %copy, label %copied
copied:
"""
    + "".join(
        f"""
  %p.which.{j} = getelementptr i64, ptr %team, i64 {OWN + 3 * j}
  %which.{j} = load i64, ptr %p.which.{j}, align 8
  %p.base.{j} = getelementptr i64, ptr %team, i64 {OWN + 3 * j + 1}
  %base.{j} = load i64, ptr %p.base.{j}, align 8
  %p.step.{j} = getelementptr i64, ptr %team, i64 {OWN + 3 * j + 2}
  %step.{j} = load i64, ptr %p.step.{j}, align 8
  %far.{j} = mul i64 %step.{j}, %number
  %at.{j} = add i64 %base.{j}, %far.{j}
  %to.{j} = getelementptr i64, ptr %own, i64 %which.{j}
  store i64 %at.{j}, ptr %to.{j}, align 8
"""
        for j in range(2)
    )
    + """
  %to.drawn = getelementptr i64, ptr %own, i64 %drawn
  store ptr %pair, ptr %to.drawn, align 8
  %to.start = getelementptr i64, ptr %own, i64 %start
  %to.stop = getelementptr i64, ptr %own, i64 %stop
  %to.until = getelementptr i64, ptr %own, i64 %until
  %to.size = getelementptr i64, ptr %own, i64 %size
  br label %range
range:
  %r = phi i64 [0, %copied], [%r.next, %empty]
  %r.from = add i64 %r, %number
  %which = urem i64 %r.from, %ranges
  %which.far = mul i64 %which, <_RANGE>
  %which.at = add i64 %which.far, <RANGE>
  %p.next = getelementptr i64, ptr %team, i64 %which.at
  %p.end = getelementptr i64, ptr %p.next, i64 1
  %end = load i64, ptr %p.end, align 8
  br label %look
look:
  %seen = load atomic i64, ptr %p.next monotonic, align 8
  %is.some = icmp slt i64 %seen, %end
  br i1 %is.some, label %draw, label %empty
draw:
  %first = atomicrmw add ptr %p.next, i64 %piece monotonic, align 8
  %is.mine = icmp slt i64 %first, %end
  br i1 %is.mine, label %go, label %empty
go:
  %whole = add i64 %first, %piece
  %is.whole = icmp slt i64 %whole, %end
  %last = select i1 %is.whole, i64 %whole, i64 %end
  %length = sub i64 %last, %first
  store i64 %first, ptr %to.start, align 8
  store i64 %last, ptr %to.stop, align 8
  store i64 %last, ptr %to.until, align 8
  store i64 %length, ptr %to.size, align 8
  call void %kernel(ptr %own)
  %is.turn = icmp eq i64 %number, 0
  %is.most = icmp sge i64 %last, %most
  %is.enough = and i1 %is.turn, %is.most
  br i1 %is.enough, label %over, label %look
empty:
  %r.next = add i64 %r, 1
  %r.more = icmp slt i64 %r.next, %ranges
  br i1 %r.more, label %range, label %over
over:
  %left = phi i64 [1, %go], [0, %empty]
  %told = load i64, ptr %p.told, align 8
  %is.told = icmp ne i64 %told, 0
  br i1 %is.told, label %tell, label %end.of.all
tell:
  %p.all = getelementptr i64, ptr %team, i64 <TOLD>
  store atomic i64 1, ptr %p.all monotonic, align 8
  br label %end.of.all
end.of.all:
  ret i64 %left
}"""
)

_CALL = """
define internal void @call(ptr %team, i64 %number) nounwind {
entry:
  %far = mul i64 %number, <_SLOT>
  %at = add i64 %far, <_SLOTS>
  %slot = getelementptr i64, ptr %team, i64 %at
  %p.state = getelementptr i64, ptr %slot, i64 <_STATE>
  %was = atomicrmw xchg ptr %p.state, i64 <CALLED> acq_rel, align 8
  %sleeps = icmp eq i64 %was, <ASLEEP>
  br i1 %sleeps, label %wakes, label %over
wakes:
  %p.wake = getelementptr ptr, ptr %team, i64 <WAKE>
  %wake = load ptr, ptr %p.wake, align 8
  %failed = call i32 %wake(ptr %slot)
  br label %over
over:
  ret void
}"""

_OTHERS = f"""
define internal void @others(ptr %team, i64 %number) nounwind {{
entry:
{_load("HELPERS")}
  %before = mul i64 %number, <FAN>
  br label %next
next:
  %k = phi i64 [0, %entry], [%k.next, %calls]
  %after = add i64 %before, %k
  %other = add i64 %after, 1
  %is.one = icmp sle i64 %other, %helpers
  br i1 %is.one, label %calls, label %over
calls:
  call void @call(ptr %team, i64 %other)
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, <FAN>
  br i1 %more, label %next, label %over
over:
  ret void
}}"""

_STAY = """
define void @stay(ptr %slot) nounwind {
entry:
  %p.team = getelementptr ptr, ptr %slot, i64 <TEAM>
  %team = load ptr, ptr %p.team, align 8
  %p.number = getelementptr i64, ptr %slot, i64 <NUMBER>
  %number = load i64, ptr %p.number, align 8
  %p.state = getelementptr i64, ptr %slot, i64 <_STATE>
  %p.spins = getelementptr i64, ptr %slot, i64 <_SPINS>
  %p.ended = getelementptr i64, ptr %slot, i64 <_ENDED>
  %p.sleep = getelementptr ptr, ptr %team, i64 <SLEEP>
  %sleep = load ptr, ptr %p.sleep, align 8
  %p.wake = getelementptr ptr, ptr %team, i64 <WAKE>
  %wake = load ptr, ptr %p.wake, align 8
  %p.said = getelementptr i64, ptr %slot, i64 <SAID>
  %p.spin = getelementptr i64, ptr %team, i64 <SPIN>
  br label %waits
waits:
  %spins = load i64, ptr %p.spins, align 8
  %looks = icmp ne i64 %spins, 0
  br i1 %looks, label %look, label %tires
look:
  %turn = phi i64 [0, %waits], [%turn.next, %again], [0, %looks.on]
  %state = load atomic i64, ptr %p.state monotonic, align 8
  %is.called = icmp eq i64 %state, <CALLED>
  br i1 %is.called, label %comes, label %pauses
pauses:
  call void <pause>
  %turn.next = add i64 %turn, 1
  %is.long = icmp sge i64 %turn.next, 16
  br i1 %is.long, label %asks, label %again
again:
  br label %look
asks:
  %time = call i64 @now(ptr %team, ptr %slot)
  %ended = load i64, ptr %p.ended, align 8
  %since = sub i64 %time, %ended
  %is.over = icmp sgt i64 %since, %spins
  br i1 %is.over, label %tires, label %looks.on
looks.on:
  br label %look
tires:
  %tired = cmpxchg ptr %p.state, i64 <IDLE>, i64 <ASLEEP> acq_rel acquire, align 8
  %is.tired = extractvalue { i64, i1 } %tired, 1
  br i1 %is.tired, label %sleeps, label %comes
sleeps:
  %failed = call i32 %sleep(ptr %slot)
  %is.woken = icmp eq i32 %failed, 0
  br i1 %is.woken, label %comes, label %sleeps
comes:
  %call = cmpxchg ptr %p.state, i64 <CALLED>, i64 <WORKING> acq_rel acquire, align 8
  %is.call = extractvalue { i64, i1 } %call, 1
  br i1 %is.call, label %works, label %notes
works:
  call void @others(ptr %team, i64 %number)
  %left = call i64 @work(ptr %team, ptr %slot)
  %was = atomicrmw xchg ptr %p.state, i64 <IDLE> acq_rel, align 8
  %is.awaited = icmp eq i64 %was, <AWAITED>
  br i1 %is.awaited, label %says, label %notes
says:
  %failed.too = call i32 %wake(ptr %p.said)
  br label %notes
notes:
  %p.since = getelementptr i64, ptr %team, i64 <SINCE>
  %came = load i64, ptr %p.since, align 8
  %last = load i64, ptr %p.ended, align 8
  %gap = sub i64 %came, %last
  %spin = load i64, ptr %p.spin, align 8
  %is.soon = icmp slt i64 %gap, %spin
  %spins.next = select i1 %is.soon, i64 %spin, i64 0
  store i64 %spins.next, ptr %p.spins, align 8
  %ended.now = call i64 @now(ptr %team, ptr %slot)
  store i64 %ended.now, ptr %p.ended, align 8
  br label %waits
}"""

_BEGIN = f"""
define internal void @begun(ptr %team) nounwind {{
entry:
{_load("FIRST", "END", "RANGES", "SHARE")}
  %p.told = getelementptr i64, ptr %team, i64 <TOLD>
  store i64 0, ptr %p.told, align 8
  %mine = getelementptr i64, ptr %team, i64 <_SLOTS>
  %now = call i64 @now(ptr %team, ptr %mine)
  %p.since = getelementptr i64, ptr %team, i64 <SINCE>
  store i64 %now, ptr %p.since, align 8
  br label %range
range:
  %r = phi i64 [0, %entry], [%r.next, %range]
  %first.now = phi i64 [%first, %entry], [%last, %range]
  %whole = add i64 %first.now, %share
  %is.whole = icmp slt i64 %whole, %end
  %last = select i1 %is.whole, i64 %whole, i64 %end
  %far = mul i64 %r, <_RANGE>
  %at = add i64 %far, <RANGE>
  %p.next = getelementptr i64, ptr %team, i64 %at
  %p.last = getelementptr i64, ptr %p.next, i64 1
  store i64 %first.now, ptr %p.next, align 8
  store i64 %last, ptr %p.last, align 8
  %r.next = add i64 %r, 1
  %more = icmp slt i64 %r.next, %ranges
  br i1 %more, label %range, label %over
over:
  call void @others(ptr %team, i64 0)
  ret void
}}
define void @begin(ptr %team) nounwind {{
  call void @begun(ptr %team)
  ret void
}}"""

_TURN = """
define internal i64 @turned(ptr %team) nounwind {
  %slot = getelementptr i64, ptr %team, i64 <_SLOTS>
  %left = call i64 @work(ptr %team, ptr %slot)
  %p.left = getelementptr i64, ptr %team, i64 <LEFT>
  store i64 %left, ptr %p.left, align 8
  ret i64 %left
}
define void @turn(ptr %team) nounwind {
  %left = call i64 @turned(ptr %team)
  ret void
}"""

_JOIN = f"""
define internal i64 @awaited(ptr %team, i64 %number) nounwind {{
entry:
{_load("SPIN")}
  %far = mul i64 %number, <_SLOT>
  %at = add i64 %far, <_SLOTS>
  %slot = getelementptr i64, ptr %team, i64 %at
  %mine = getelementptr i64, ptr %team, i64 <_SLOTS>
  %p.state = getelementptr i64, ptr %slot, i64 <_STATE>
  %p.owed = getelementptr i64, ptr %slot, i64 <_OWED>
  %owed = load i64, ptr %p.owed, align 8
  %is.owed = icmp ne i64 %owed, 0
  br i1 %is.owed, label %waits, label %asks
asks:
  %call = cmpxchg ptr %p.state, i64 <CALLED>, i64 <IDLE> acq_rel acquire, align 8
  %state = extractvalue {{ i64, i1 }} %call, 0
  %works = icmp eq i64 %state, <WORKING>
  br i1 %works, label %began, label %over
began:
  %since = call i64 @now(ptr %team, ptr %mine)
  br label %look
look:
  %turn = phi i64 [0, %began], [%turn.next, %again], [0, %looks.on]
  %now = load atomic i64, ptr %p.state acquire, align 8
  %still = icmp eq i64 %now, <WORKING>
  br i1 %still, label %pauses, label %over
pauses:
  call void <pause>
  %turn.next = add i64 %turn, 1
  %is.long = icmp sge i64 %turn.next, 16
  br i1 %is.long, label %asks.clock, label %again
again:
  br label %look
asks.clock:
  %time = call i64 @now(ptr %team, ptr %mine)
  %took = sub i64 %time, %since
  %is.over = icmp sgt i64 %took, %spin
  br i1 %is.over, label %tires, label %looks.on
looks.on:
  br label %look
tires:
  %tired = cmpxchg ptr %p.state, i64 <WORKING>, i64 <AWAITED> acq_rel acquire, align 8
  %is.tired = extractvalue {{ i64, i1 }} %tired, 1
  br i1 %is.tired, label %owes, label %over
owes:
  store i64 1, ptr %p.owed, align 8
  br label %waits
waits:
  %p.sleep = getelementptr ptr, ptr %team, i64 <SLEEP>
  %sleep = load ptr, ptr %p.sleep, align 8
  %p.said = getelementptr i64, ptr %slot, i64 <SAID>
  %failed = call i32 %sleep(ptr %p.said)
  %is.said = icmp eq i32 %failed, 0
  br i1 %is.said, label %told, label %interrupted
told:
  store i64 0, ptr %p.owed, align 8
  br label %over
interrupted:
  ret i64 1
over:
  ret i64 0
}}
define internal i64 @joined(ptr %team) nounwind {{
entry:
{_load("HELPERS")}
  %p.waits = getelementptr i64, ptr %team, i64 <WAITS>
  br label %next
next:
  %k = phi i64 [1, %entry], [%k.next, %one]
  %is.one = icmp sle i64 %k, %helpers
  br i1 %is.one, label %one, label %over
one:
  %interrupted = call i64 @awaited(ptr %team, i64 %k)
  %k.next = add i64 %k, 1
  %goes.on = icmp eq i64 %interrupted, 0
  br i1 %goes.on, label %next, label %over
over:
  %waits = phi i64 [0, %next], [1, %one]
  store i64 %waits, ptr %p.waits, align 8
  ret i64 %waits
}}
define void @join(ptr %team) nounwind {{
  %waits = call i64 @joined(ptr %team)
  ret void
}}"""

_RUN = """
define void @run(ptr %team) nounwind {
entry:
  %p.waits = getelementptr i64, ptr %team, i64 <WAITS>
  store i64 1, ptr %p.waits, align 8
  call void @begun(ptr %team)
  %left = call i64 @turned(ptr %team)
  %is.left = icmp ne i64 %left, 0
  br i1 %is.left, label %over, label %waits
waits:
  %interrupted = call i64 @joined(ptr %team)
  br label %over
over:
  ret void
}"""
