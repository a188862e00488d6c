"""Every number by which it is decided what runs: seconds, bytes, shares and counts, in one table.

With others results are the same, by another way, or something is refused sooner or later. Those in
seconds hold for a usual machine: what depends on them is worth a factor, not a share. Tests set
rows for a while: ``with LIMITS.set(few_slices=0): ...``
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Limits:
    """A row for each threshold. Comments that begin with "..." continue the row before."""

    # --- Seconds that the loop, a call or a step takes on a usual machine ------
    loop_turn = 1e-6  # NumPy's loop for a slice, beside the call of the function
    signature_loop_turn = 8e-7  # NumPy's loop with a signature for a slice, beside the call
    call_in_block = 8e-6  # a call of NumPy on a block, however few slices it has
    blocks_run = 6e-5  # a run in blocks, however few slices there are ...
    blocks_call = 8e-6  # ... and each of its calls
    graph_per_call = 3e-4  # to make a graph of a call and to prepare that for a compiler
    numpy_call = 2e-5  # a call of NumPy, however few slices there are ...
    numpy_number = 1e-9  # ... and more for each number
    engine_per_flop = 2.5e-10  # NumPy's engine: an operation ...
    engine_per_value = 2e-9  # ... each value of a slice besides ...
    engine_per_node = 2e-6  # ... each node ...
    engine_per_call = 5e-5  # ... and each call in any case
    llvm_loading = 0.08  # to import llvmlite and to make LLVM's tables for this CPU
    network_call = 3e-5  # a call of few slices by definition, however few there are ...
    network_mac = 4e-11  # ... and each multiply-add of it
    windows_call = 1e-4  # the same of networks with convolutions, which torch or NumPy run
    windows_mac = 1e-10  # and each multiply-add of these
    slices_call = 2e-5  # a call of NumPy's engine for functions of slices
    slices_instruction = 0.2e-9  # an instruction there, about
    slices_compiling = 0.04  # to compile a kernel of a function of slices, about
    unrolled_compiling = 0.01  # to compile a kernel without loops, about: in any case ...
    unrolled_per_instruction = 2e-5  # ... and for each of its instructions
    typed_loading = (
        0.06  # to import what compiles typed functions: without the other kernels for CPUs
    )
    typed_compiling = 0.02  # to compile a typed function: in any case ...
    typed_per_byte = 1.2e-4  # ... for each byte of its code, before it is read, ...
    typed_solver = 1.0  # ... more if it fits something, ...
    typed_bounded_solver = 1.4  # ... within bounds, or looks for events, ...
    typed_long_solver = 3.0  # ... or is L-BFGS-B, Radau or BDF, ...
    typed_short_solver = 0.8  # ... or integrates, solves equations or has shares of 0 and more, ...
    typed_minimum = 0.4  # ... or looks for a minimum, ...
    typed_root = 0.06  # ... or solves an equation of one number, ...
    typed_page = 0.1  # ... and for each page of our library that it names
    typed_per_instruction = 1.5e-4  # ... and for each of its instructions
    # the same from which what reading it has taken is noted on disk, with its machine code, and how
    # much longer it takes to write that text for the compiler as well
    typed_noted = 0.25
    typed_written = 1.3
    # instructions of a typed function from which its loops are not unrolled: that makes loops over
    # three states a third quicker, and takes a tenth more to compile
    typed_unrolled = 300
    # seconds until one more thread has begun, in which another one waits for the interpreter's lock
    typed_thread = 1.2e-4
    typed_helper = 2e-6  # the same of a helper, which waits for nothing of the interpreter's
    typed_spin = 5e-5  # seconds that one looks for the next call, if the last one came as soon
    typed_share = 5e-6  # seconds of the slices that a helper draws at a time, at the least
    crowd_tries = 4  # calls with a number of threads that tell what it takes, one after the other
    crowd_looks = 128  # calls after which other numbers are tried again
    typed_alone = 5e-5  # seconds of one thread, known from calls before, that are not shared
    typed_alone_first = 2e-3  # the same of first calls, whose code and memory are cold
    typed_dearer = 8.0  # times what a slice took before that it is taken for at the most
    typed_piece = 2e-5  # seconds of the slices that a thread draws at a time, at the least ...
    typed_pieces = 16  # ... and how often each thread draws, about
    typed_letters = 24  # of a text of any length that is put together: longer ones f itself makes
    typed_folded = 1 << 16  # bytes of arrays that a call of constants has and gives, made once
    # share of a run that constants may save, where floats are given to it, or integers: these say
    # how often something is done, and by what LLVM may divide
    typed_given = 0.1
    typed_given_integers = 0.5
    typed_given_checked = 2  # further ones for which some slices are compared with real calls
    typed_filled = 1 << 11  # bytes of such an array that each slice may have its own copy of
    typed_kept = 64  # bytes of an array that it may keep alive, as the words of a generator
    drawn_first = 64  # slices that draw are run before marks are looked for, then twice as many ...
    pairs_at_once = 1 << 21  # of numbers of slices, of which each is compared with each
    mask_columns = 16  # of a matrix whose rows a mask selects, for which they go together
    drawn_least = 4  # ... and at least so many after a mark
    typed_turn = 0.02  # seconds after which an interruption is looked for
    scipy_loading = 0.3  # CPU seconds to import scipy.special, where it is not loaded
    module_loading = 0.15  # CPU seconds of the largest of our modules, with all that it imports

    # --- Typed functions: what is compiled from source ------------------------
    typed_shared = 60  # steps of a function from which it is written once, if it is called often
    typed_blocks = 3200  # blocks that a typed function may have: two fits in a `try` have 1,900
    typed_visits = (
        24  # of a block, on average, after which no more bounds of integers are looked for
    )
    typed_versions = 40  # sets of types that a part of a function is written for
    typed_depth = 12  # functions that call each other
    typed_rounds = 1 << 27  # rounds of its `while` loops, after which the function itself runs
    typed_arena = 1 << 25  # bytes for the arrays and lists that it makes for a slice, per thread
    # times its price, which the loop must take for a function to be compiled: on a slow machine,
    # or beside others, that is two thirds more than it says
    typed_worth = 1.3
    # times its price that loops take before a function is compiled, where one is shorter: so
    # if it is not called again, at most a third was spent in vain
    typed_waits = 2.0
    typed_short = 0.5  # seconds that its loops take, each too short for a plan, before one is made
    typed_rounding = 1e-9  # the relative difference from a real call where solvers may round ...
    typed_solving = 1e-7  # ... or ask for differences of what they round, ...
    typed_wavering = 100.0  # ... or times what a real call differs by if the slice is rounded
    typed_margin = 1e-14  # how close is what last bits of another C library may decide, relatively
    typed_rounding_short = 1e-4  # what the first one is for float32, on a GPU
    typed_apart = 4  # times the bytes of slices that a copy may take which lies as they do
    typed_tried = 0.03  # seconds of a loop from which some slices tell whether it takes longer: ...
    typed_tried_share = 64  # ... one of so many
    typed_told = 0.01  # the share of slices left to the function from which a warning says so ...
    typed_marked = 0.8  # ... and from which the function runs for all
    # times that is asked until what was refused for the slices of one call is tried again
    typed_again = 16
    device_long = 1000  # instructions of a function that is compiled once, whatever memory it needs
    device_written = (
        4000  # instructions that become of a function, from which a GPU's kernel calls it
    )
    # numbers of a slice on a GPU up to which a thread takes it, of a function without loops, ...
    device_numbers = 32
    device_slices = 2048  # ... and slices, from which there is a thread for each core
    typed_straight = (
        32  # numbers of a slice up to which loops without decisions are unrolled better
    )
    raised_faults = 0  # whether what fails in the compiler itself is raised: tests shall see it
    typed_gain = 10.0  # times as fast as the loop from which a trace is left as it is ...
    # ... but for one of numbers that goes several ways, and takes so many seconds a call: once all
    # calls have taken what loops may take, both are measured
    typed_rival = 1e-3

    # the same side by side, where a call of math's functions is a long text besides
    typed_lanes_unrolled = 150
    # slices that go side by side through a typed function, and half of those that do so where
    # registers have 512 bits
    typed_lanes = 8
    typed_row = 64  # numbers that follow each other from which a kernel for such rows is compiled
    typed_tile = 1 << 18  # bytes that they may take
    typed_lanes_price = 4.0  # times what compiling a function takes: to compile it for lanes
    typed_lanes_tried = 1024  # slices from which an eighth tells what one after the other takes
    typed_lanes_checked = 1024  # slices whose results are compared before lanes are used
    typed_lanes_gain = 0.95  # of what one after the other takes, under which lanes stay
    # times how they are timed until it is known whether lanes stay: if that is plain, ...
    typed_lanes_looks = 3
    # ... and if they take about as long, by up to this factor
    typed_lanes_most = 8
    typed_lanes_near = 1.5
    typed_lanes_later = 64  # short calls after which that is looked at once more
    typed_lanes_left = 0.2  # share of slices done again from which that is looked at again

    # --- Waiting: until a plan, a look or a compiler has paid ------------------
    few_slices = 16  # up to so many slices NumPy's loop takes less time than looking closer
    few_elements = 16  # up to so many elements `vectorize` loops, whatever the function is
    several_slices = 2  # slices from which it is worth to look closer at a call with a signature
    plan_worth = 2e-3  # seconds that the loop must take for a plan to be worth making
    # the same where `f` holds a network, whose first plan loads a hundred modules; and seconds of
    # shorter loops after which it is, too
    plan_worth_of_networks = 40e-3
    # up to so many numbers a function that `vectorize` has not seen loops, which is timed
    vectorize_unknown = 128
    # times the slices of a try that took too long, after which another one may take longer
    retry_slices = 16
    given_up_from = 1.2  # times the loop's time from which a way is given up
    # calls after which a function whose slices go too many ways runs in the loop for good
    path_tries = 3
    # seconds of loops that a first plan of a network waits for: about what it takes
    first_plan = 40e-3
    # up to so many slices it waits at once; for more the first calls tell what the loop takes ...
    first_plan_slices = 128
    first_plan_tells = 0.06  # ... in this share of those seconds
    # calls on few slices until it is known whether the loop takes less time, and what part more of
    # its time they may take
    loop_looks = 5
    loop_less = 1.05
    # seconds of loops in a process before what plans Python functions is loaded: about what that
    # takes
    first_loops = 40e-3
    # times the seconds of a look at what a refused network depends on, before the next look
    loops_per_look = 50.0
    # times the seconds of a try in vain, before the next; twice as many before each further one
    loops_per_refusal = 20.0
    # times what the long way took before a loop, that loops take before it is gone again
    loops_per_plan = 100
    most_of_plan = 5e-4  # seconds that this counts at most: a first call traces
    engine_patience = 0.2  # seconds of NumPy's engine after which a kernel is compiled
    # the same of functions that are graphs themselves: then kernels load, and are compiled
    small_patience = 10e-3
    # seconds of calls of few slices by definition, before they wait for a kernel
    network_patience = 0.01
    # seconds of calls without a kernel for each product of a network with convolutions, before
    # one is compiled
    network_compiling = 0.1
    # the same where the kernel is on disk: it has to be measured which of both is faster
    network_loading = 0.02
    # times what NumPy's calls take that compiling may take before it: another thread does it
    eager_compiling = 4
    numba_worth = 10_000  # slices from which a loop over a function of numba is compiled
    # calls before a CUDA graph is made, or a line recorded: it takes as long as many of them
    calls_before_capture = 4
    warned_slices = 1000  # slices from which a plain Python loop is worth a warning
    workers_look = 0.05  # seconds that the loop runs here first, to see how long a call takes
    # seconds that the rest of the loop must take for other processes to be asked
    workers_worth = 0.1
    workers_chunk = 0.1  # seconds that a process works on its own ...
    # ... or still does when the results are not wanted any more; otherwise it is ended
    workers_quick = 0.3
    # chunks that each process gets at least, so that all of them end at the same time
    workers_chunks = 4

    # --- What a first try may cost ---------------------------------------------
    first_call = 12e-3  # seconds that a first call may take beyond the loop ...
    first_call_share = 0.15  # ... and that share of the loop's ...
    planning_share = 0.8  # ... of which planning may take this part
    # the share of the loop's time that the first run may take in any case, to show what it is worth
    first_run = 0.04
    # seconds that the loop takes at least for a call that is written down, where no call of `f` was
    # timed: of an operator of Python, and of a function of arrays
    step_of_numbers = 3e-8
    step_of_arrays = 2e-6
    # seconds that the very first function of a process may take besides, which loads modules
    process_loading = 40e-3
    later_call = 0.0  # seconds that a later call may lose ...
    later_call_share = 0.04  # ... and that share of the loop's
    # times the seconds of runs in vain that the loop runs for before the next try
    loops_per_run = 20.0
    lent = 0.0  # seconds that count as saved before any run has saved some
    slower_than_least = 1.3  # times the least that runs have taken that a run may take
    slower_than_loop = 1.0  # times the loop's time, if there was none ...
    slower_again = 0.25  # ... and if that found too many paths
    # times what a run has taken that tells whether the loop is done sooner: looking takes time
    # too
    run_tells = 1.25
    run_close = 4.0  # ... and that it may be done about as soon: then a loop over all is timed
    saved_share = 0.5  # part of what was saved that may be spent on what makes later calls faster
    paths_share = 0.1  # share of the loop's time that finding further paths may take ...
    paths_at_least = 0.03  # ... and seconds that it may take in any case
    tried_blocks = 16  # blocks by which it is seen what a run takes ...
    tried_share = 0.02  # ... and what part of the loop's time they may add
    timed_calls = 64  # calls that tell how long one takes in a loop
    warm_calls = 4  # the least of them ...
    timed_seconds = 1e-3  # ... and for how long, where nothing else is to be measured
    path_price = 0.5  # part of one call that is taken for what calls on a further path take
    # times the price from which on such calls are made twice more: short ones, and a first long one
    dear_path = 4.0
    path_sample = 1024  # slices that tell whether there are too many paths
    trace_steps = 20_000  # steps of a trace at most
    trace_seconds = 5.0  # seconds of a trace at most
    paths = 512  # paths of a function at most
    kernel_paths = 64  # paths that one kernel has at most
    # share of the slices that must leave the paths of a kernel for it to be made anew
    kernel_left = 0.02
    # share of the slices from which on those that are marked run with all the others ...
    kernel_marked = 0.25
    kernel_wasted = 3  # ... and so many runs of a kernel may be for nothing
    # share of a block's slices that may be left to `f` since their paths are not known
    block_left = 0.5
    raising_tries = 64  # calls to find out which slices raise, in a block of few
    # seconds of calls that tell what one takes, where the first does not: it takes ...
    begun_calls = 1e-4
    begun_first = 10  # ... up to so many times as long
    begun_slices = 8  # calls of `f` before a plan is made: so many ...
    begun_share = 16  # ... one of so many ...
    begun_seconds = 2e-4  # ... or for so many seconds
    # bytes of results that loops keep while it is seen whether they end before a plan would
    begun_bytes = 1 << 24

    # --- Measuring two ways beside each other ----------------------------------
    # times the slices of a sample there must be, for a first call to take less than twice as long
    sample_share = 8
    sample_turns = 3  # turns, of which the first prepares things and does not count
    # seconds of a turn that counts: calls that take less follow each other, as a user's do
    sample_turn = 3e-3
    # seconds after which another library's idle threads no longer keep the processors busy
    sample_pause = 1e-2
    # part of the other's time that is worth a change: times of a few slices are not exact
    sample_better = 0.9
    # slices of a sample of `compare=True`: kernels of a GPU are slower per slice on few
    compared_slices = 4096
    compared_looped = 64  # slices that the loop runs on there
    compared_turns = 5  # calls of one way there ...
    compared_enough = 0.2  # ... and seconds after which none is begun
    block_decided_by = 64  # slices of which is decided how a function runs on those of a block
    numpy_sample = 512  # slices to measure times of NumPy's engine by ...
    numpy_sample_blocks = 3  # ... and blocks for each thread: a call begins by making buffers
    # multiply-adds by which the time of a network is measured at least: threads share them ...
    network_sample_macs = 1.6e7
    network_sample_tiles = 2  # ... and tiles for each thread
    # up to so many slices the patched original takes less time than looking closer
    few_patched = 16
    # part of a run that calls may take which tell how long the loop would have taken
    patched_sample = 0.02
    # elements, spread over all, for which the original of `vectorize` runs as well ...
    patched_probes = 32
    patched_most_probes = 256  # ... and among those without a finite result
    patched_share = 8  # of so many elements one is run again at most
    # times what a look took that the loop of a refused function takes before the next
    patched_again = 50
    patched_worth = 2e-3  # seconds that a loop must take for a look at the function
    rows_of_texts = 500  # rows of a table for each set of texts in them that is looked at by itself
    # part of all windows that are shorter than most, and are looped over ...
    other_windows = 0.05
    copied_windows = 1 << 28  # ... and bytes of windows that are no views of their array
    begun_by_pandas = 4  # calls of pandas' own that tell what one takes
    # elements, or rows, up to which its loop takes less than a look at a function that is not known
    unknown_elements = 4096
    unknown_rows = 64
    # part of one of pandas' calls that its loop takes for each, beside the user's lines
    pandas_turn_share = 0.5
    # chunks of a size before it is judged; the first of them, which prepares much, does not count
    chunk_runs = 3
    chunk_many = 4  # so few chunks tell nothing
    chunk_better = 0.97  # part of the time of another size that is worth a change
    chunk_samples = 4  # slices to find the way by
    cli_measured = 0.1  # seconds of a measurement that are enough for the command line
    cli_more = 8  # times more slices that are measured until it takes so long

    # --- Bytes of a block, and of what is kept ---------------------------------
    array_api_block = 1 << 25  # all values of a block of an array API library
    # one buffer of a block: smaller ones have threads wait for each other more (measured)
    numpy_block = 1 << 21
    # the same of functions of slices: a few of them stay in the second cache
    slices_block = 1 << 18
    # the same, where several threads would wait for each other more in smaller ones
    slices_shared_block = 1 << 20
    slices_kept = 1 << 16  # buffers up to this size stay between calls
    windows_copy = 1 << 19  # windows that are brought together for one product: they stay in cache
    torch_block = 1 << 20  # a buffer of torch's engine on a CPU ...
    torch_gpu_block = 1 << 28  # ... and on a GPU
    torch_idle = 1 << 20  # buffers up to this size are kept for the next call of the kind
    network_idle = 1 << 18  # memory for a tile up to this size is kept for the next call
    tiles_block = 1 << 24  # windows that are cut, and run, at a time
    # slices and their sums in a block: beside them the nodes of a tree have room in the cache
    trees_block = 1 << 18
    # one buffer of a block: many launches cost more time than small blocks save memory traffic
    cupy_block = 1 << 28
    cupy_segments_block = 1 << 28  # records that are there at a time
    cupy_trees_block = 1 << 28  # all values of a block: few launches, and memory that does not grow
    compiled_block = 1 << 22  # all values of a block of a function that a user compiled
    # what a call reads or makes in a block, on the average: it stays in cache, and calls are not
    # so many that their overhead shows
    python_block = 1 << 19
    python_gpu_block = 1 << 26  # the same on a GPU
    python_blocks = 1 << 26  # values of all blocks at work at their worst moment ...
    python_gpu_blocks = 1 << 30  # ... on a GPU ...
    # ... for torch on CPUs, where the pieces that its allocator leaves free add up ...
    python_torch_blocks = 1 << 24
    # ... but for the blocks of many threads, which get at least so much each
    python_least_block = 1 << 22
    # what a chunk of slices may have alive at its worst moment for each thread of torch: what
    # stays in the caches beside it ...
    torch_chunk_thread = 1 << 22
    # ... and altogether (of 11 networks each was within a tenth of its best chunk)
    torch_chunk = 1 << 26
    torch_gpu_chunk = 1 << 32  # the same on a GPU ...
    torch_gpu_share = 8  # ... and the part of its memory that it may take: one in so many
    torch_gpu_asked = 1 << 28  # bytes on a GPU from which it is asked how many are free
    # what a CUDA graph may keep; larger batches keep the device at work by themselves
    captured = 1 << 26
    given_away = 1 << 20  # a result from which torch's own memory is given away, not copied
    # slices in one call of an estimator, whose own memory grows with them
    estimator_slices = 1 << 14
    onnx_fewest = 128  # slices in one call of onnxruntime, at least ...
    onnx_most = 1 << 14  # ... and at most ...
    onnx_block = 1 << 21  # ... and bytes of its largest value: beyond, memory is slower than caches
    onnx_memory = 1 << 28  # bytes of that value in any case
    where_block = 1 << 26  # slices that `where` chooses which are gathered at once
    beside = 1 << 28  # arguments side by side: so many bytes ...
    beside_times = 4  # ... or so many times their own
    streamed_from = 1 << 26  # arrays in files are read in blocks, and not as a whole
    streamed_reads = 2.0  # times that chunks are read, from which it is worth a warning
    stored_block = 1 << 26  # a block that is large enough for its overhead not to count
    stored_memory = 1 << 30  # the most that is taken where no limit is given
    # pieces of a file that are asked for one by one; a block of more is read as it comes
    stored_pieces = 4096
    nifti_piece = 1 << 24  # what is read of a NIfTI file at a time
    zarr_chunk = 1 << 24  # a chunk where the input has none
    # threads that read and write, at the most: chunks of an output are made for so many
    cli_threads = 4
    # all files of kernels together; what was not used for longest goes first ...
    disk_cache = 256 << 20
    disk_cache_files = 4096  # ... and how many: a look at them takes 16 us each
    disk_cache_kept = 0.75  # ... until this part of them is left
    disk_cache_goes = 256  # files that go at a time, at the most
    disk_cache_looks = 64  # writes of any process, about, between two looks at the folder
    disk_cache_stale = 3600.0  # seconds after which a temporary file is abandoned
    disk_cache_largest = 64 << 20  # the largest file that is kept

    # --- Work that is worth a thread, another kernel or a copy -----------------
    # elements times instructions below which waking threads costs more than they save
    kernel_pool = 1 << 21
    # the same of what is done in well below a second: the caller then works as well
    kernel_short = 1 << 31
    network_pool = 4e6  # multiply-adds below which waking threads costs more than they save
    # pieces of work for each thread: one that is held up leaves its share to the others
    network_pieces = 4
    # multiply-adds of a piece at most: between two, Python looks whether the call was interrupted
    network_piece = 5e8
    network_gil = 3e5  # multiply-adds below which letting go of the GIL takes longer than the work
    # multiply-adds of a network with convolutions, for each of its products, that are worth a
    # kernel: without it they take no longer than it takes to compile
    network_compiled = 4e7
    trees_fewest = 64  # slices of a block of trees at least
    trees_pool = 1 << 17  # steps down trees below which waking threads costs more than they save
    trees_short = 1 << 28  # steps that take well below a second: the caller then works as well
    numpy_pool = 6e7  # multiply-adds below which waking threads costs more than they save
    numpy_bias = 4096  # numbers up to which a bias is repeated, and not added row by row
    numpy_few = 32  # numbers of a slice that are reduced one after the other, each for all slices
    # elements times steps below which waking threads costs more than they save
    slices_pool = 1 << 20
    # elements of a row from which on results are computed where they are to be
    slices_short_copy = 2048
    # elements along a slice that a piece has at least, so that few are to be combined
    slices_run = 64
    slices_pieces = 16  # pieces that one worker combines before it hands them on
    bincount_block = 1 << 20  # elements that are counted at once: what is made of them stays small
    # elements from which a call per slice costs less than numbers that are different by slice
    bincount_long = 128
    short_row = 32  # elements that NumPy's inner loops shall at least have
    # elements from which on a reduction along memory is faster than one of a transposed copy
    short_slice = 192
    transposed_tile = 8192  # elements of a transposed copy that stay in the first cache
    # places of a result up to which slices are multiplied together, not one by one (measured)
    windows_few = 8
    # multiply-adds of one product in a stack: OpenBLAS runs these in the calling thread, so that
    # our own threads do not wait for its pool
    windows_stack = 1 << 18
    windows_least = 32  # columns of a product that are worth a call
    # counters in all: where there are few of them, copies keep threads from waiting for each
    # other
    cupy_counters = 1 << 20
    cupy_compilers = 8  # kernels that are compiled at a time
    # threads that fill buffers, and as many that empty them: with 2, 4 and 8 on an H200 beside 16
    # CPUs 17, 22 and 29 GB/s
    transfer_threads = 8
    # bytes that a GPU is done with in the time that a call takes on the host, 10 to 30 us ...
    launched_bytes = 1 << 24
    launched_flop = 1 << 28  # ... and operations
    python_threads = 1 << 21  # numbers to compute from which waking a second thread pays
    # bytes from which calls in two threads do not spend their time waiting for each other
    python_long_call = 1 << 17
    few_answers = 1 << 14  # numbers that are copied from a device in the time of one question
    # before its first kernel cuDNN prepares a recurrent layer for some milliseconds: in so many
    # parts ...
    recurrent_parts = 4
    # ... of at least so many slices the device works on one while the host prepares the next
    recurrent_slices = 4096
    images_worth = 4  # images that are worth another order of memory
    # values that might be kept which are looked at: choosing among more takes too long
    segment_values = 64
    # times the work of whole slices that margins of tiles may cost: a longer tile would not save
    # much of that
    tile_enough = 1.4
    tile_most = 4.0  # the most that margins may cost
    # elements up to which an array is filled sooner than another one is made by `numpy.nditer`
    filled_array = 100

    # --- What is remembered, compared and followed of a function ---------------
    # entries kept for a function and kind: arrays of ever new shapes must not fill the memory
    remembered = 64
    decorated = 16  # functions that one decorator has made
    written_out = 64  # elements of a list or dict up to which loops over it are written out
    written_out_nodes = 4_000  # and nodes of what they become
    # bytes up to which arrays are kept as copies, which compare quickly; larger ones as a digest
    copied = 1 << 26
    keyed = 1 << 22  # bytes of an argument by whose content functions are remembered
    compared_elements = 10_000  # elements of a container up to which its contents are compared
    # bytes up to which a fitted array is compared by its content: it may be written in place
    fitted_bytes = 1 << 20
    fitted_arrays = 64  # arrays in a list up to which they are
    # bytes of trees' values and thresholds up to which all are compared in each call
    fitted_trees = 1 << 24
    # bytes of a module's tensors that are compared with a copy in each call
    weights_copied = 1 << 20
    # bytes of large ones that are compared whole in each call, at some 10 GB/s
    weights_whole = 1 << 26
    # of further ones so many bytes are compared in each call, one block after the other ...
    weights_block = 1 << 13
    weights_sampled = 64  # ... and so many numbers all over it
    reached = 10_000  # objects to follow; a function that reaches more is not remembered
    sent_kinds = 8  # kinds of slices that graphs are made for: the last that there were
    sent_small = 1 << 20  # bytes of a second pickle that goes beside graphs as well
    # relative difference of a sample's results, alone and in a batch, that rounding may make
    batches_alike = 1e-3
    formula_probes = 6  # samples for which a formula is compared with the method
    inside_tries = 40  # shapes of a network inside a function that are tried
    flat_places = 40  # combinations of places for the axes of batches that are tried out
    # runs in each of which random numbers are drawn, for a function to be one that does
    random_tries = 3
    looked_up = 8  # values that a run of `f` looks up in a dict, or makes a text of
    choices = 8  # constants that a number may be
    # larger integers that `f` asks for, and that it has not asked for before, are left to it
    largest_answer = 1 << 20
    # parts that are looked at for a slice that warns: of 2^20 slices one is found in 40 of them
    warning_parts = 300
    # functions that are told apart; those of a program that makes ever new ones go to one row
    patched_functions = 10_000
    patched_reasons = 20  # reasons that are told apart for a function
    patched_kept = 64  # calls that looped are counted when there are so many, or on request
    shown_functions = 12  # functions that the text of a patched run names
    shown_reason = 100  # letters of a reason in it ...
    shown_name = 40  # ... and of a function's name
    quoted_line = 60  # letters of a line that a reason quotes
    chunk_warnings = 100  # warnings that are told of a chunk
    progress_after = 1.0  # seconds after which there is something to see ...
    progress_every = 0.2  # ... and between two looks of a plain line

    # --- What files and functions may ask for ----------------------------------
    # nodes and leaves: larger forests are read from memory for each block of slices, and take
    # long to pack
    forest_bytes = 256 << 20
    # bytes of a saved plan's header: what JSON of this length takes in memory is bounded
    saved_header = 1 << 22
    saved_nodes = 20_000  # nodes of a saved graph
    # lists and objects in a header, each of which takes more memory than its text
    saved_lists = 300_000
    saved_length = 1 << 40  # length of an axis
    value_numbers = 1 << 27  # numbers in one value, of one slice that is not long itself
    # numbers of a value for each of a long slice: as many as large layers have channels
    value_per_number = 1 << 10
    value_views = 32  # times as many where they need not be brought together, as windows
    model_json = 1 << 20  # bytes of JSON beside a model
    inferred_states = 20_000  # orders of layers that are looked at; of more none is clear
    inferred_entries = 10_000  # layers of a file
    onnx_bytes = (1 << 31) - (1 << 20)  # a model with its weights: protobuf has no larger messages
    onnx_nodes = 100_000  # nodes of a model ...
    onnx_attributes = 1000  # ... and attributes of one
    onnx_checked = 1 << 26  # up to this size a file is shown to onnx's own checker
    onnx_messages = 400_000  # messages in a file ...
    onnx_texts = 1_000_000  # ... and texts, or numbers, a series of one field counted once
    onnx_depth = 100  # messages in messages, as protobuf has it
    onnx_trees = 10_000  # trees of a forest ...
    onnx_tree_results = 10_000  # ... results of it ...
    onnx_tree_depth = 500  # ... steps to a leaf ...
    onnx_tree_values = 1 << 24  # ... and values of its leaves
    # constants that are computed, beside a few times the bytes of those in the file ...
    onnx_constant_bytes = 1 << 26
    onnx_constant_flops = 1 << 30  # ... and operations for them
    safetensors_header = 1 << 22  # bytes of a header: 20,000 weights and more
    torch_records = 20_000  # records of a file
    # bytes that are read in one go: of the directory of a zip file, and of a pickle
    torch_read = 1 << 22
    torch_opcodes = 400_000  # steps of a pickle
    # tuples that may be in one another: hashing those recurses in C, where nothing stops it
    torch_tuples = 40_000
    torch_alike = 64  # tensors may share memory, but not be so many times as large as the file

    @contextmanager
    def set(self, **rows: Any) -> Iterator[None]:
        """Other numbers for a while, in all threads.

        Raises
        ------
        AttributeError
            If there is no such row.
        """
        before = {name: getattr(self, name) for name in rows}
        try:
            for name, value in rows.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


LIMITS = Limits()

__all__ = ["LIMITS", "Limits"]
