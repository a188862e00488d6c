"""The commands. Exit code 2: wrong usage, 1: failure."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import __version__, options
from . import files, fills, locks, masks, model, running
from .telling import telling

_ROUNDING = 1e-4
"""Difference from the loop, as a part of the largest result, that `check` takes for rounding."""


class _Number(click.ParamType):
    """A number, in words of the command line, without loss."""

    name = "float"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The number that a text says."""
        try:
            return fills.number(value)
        except ValueError:
            self.fail(f"{value!r} is not a valid float.", param, ctx)


_NUMBER = _Number()


def _of_a_model(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments of all commands that look at a model and an input."""

    @click.argument("model_", metavar="MODEL")
    @click.argument("input_", metavar="INPUT")
    @click.option("--activation", help="Activation of hidden layers, for a file of weights.")
    @click.option("--output-activation", help="Activation of the last layer.")
    @click.option("--key", help="Which set of weights of a checkpoint with several.")
    @click.option("--model-output", metavar="NAME", help="Which output, of an ONNX file.")
    @click.option("--trust", is_flag=True, help="Allow the model's file to run code.")
    @click.option("--axis", help="Axis of a slice, or several with commas; default: the last.")
    @click.option("--device", default="", help="cuda, cuda:1 ...; by default the CPU.")
    @click.option("--precision", type=click.Choice(["highest", "high", "medium"]))
    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        with telling(given.get("quiet", False)) as told, contextlib.ExitStack() as stack:
            how = {k: given.pop(k) for k in ("device", "precision")}
            chosen = {k: v for k, v in how.items() if v}
            if chosen:
                stack.enter_context(options(**chosen))
            names = ("activation", "output_activation", "key", "model_output", "trust")
            f = model.load(given.pop("model_"), **{k: given.pop(k) for k in names})
            image = files.read(given.pop("input_"))
            stack.callback(image.close)
            axis = running.axis_of(given.pop("axis"), image)
            told.slices = math.prod(running.Job(f, image, axis).batch)
            return command(f, image, axis, **given)

    return wrapped


def _inside(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where there is something to compute."""
    for option in (
        click.option(
            "--ignore-place",
            is_flag=True,
            help="Accept a mask with another affine, transform or CRS.",
        ),
        click.option("--nodata", type=_NUMBER, help="The value in INPUT for missing measurements."),
        click.option("--mask", help="A file: compute only slices where it is not 0."),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xpapply")
def commands() -> None:
    """Apply a model to every slice of a volume or an image.

    MODEL is a file with a network (safetensors, a torch checkpoint, ONNX, a saved plan), or a
    function, package.module:name or script.py:name. INPUT is .npy, .npz, NIfTI, TIFF or .zarr.
    """


@commands.command()
@_of_a_model
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path))
@_inside
@click.option(
    "--fill",
    type=_NUMBER,
    help="The value in OUTPUT where there is no result: NaN by default. Labels and other whole "
    "numbers have no NaN, and need it.",
)
@click.option("--dtype", help="dtype of OUTPUT.")
@click.option("--memory", default="0", help="Memory for blocks: '500 MB'.")
@click.option("--argmax", is_flag=True, help="Write the position of the largest: labels.")
@click.option("--overwrite", is_flag=True, help="OUTPUT may exist, and is replaced.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run.")
@click.option("--dry-run", is_flag=True, help="Print the plan, and compute nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def run(f: Any, image: files.Image, axis: Any, **given: Any) -> None:
    """Apply MODEL to every slice of INPUT, and write OUTPUT.

    Nothing is there under the name of OUTPUT until all of it is written.
    """
    output = given["output"]
    if output.is_symlink():  # it stays one
        output = output.resolve()
    files.check_new(output, given["overwrite"], given["resume"])
    image.check_apart(output)
    job, mask, read = _job(f, image, axis, given)
    if read is not None:
        read.check_apart(output)
    gaps = mask is not None or job.nodata is not None
    visible = not given["quiet"] and sys.stderr.isatty() and not given["dry_run"]
    around = functools.partial(
        options, progress=visible, memory=given["memory"], resume=given["resume"]
    )
    with around():  # raises for a memory that is none, before a file is made
        pass
    result = running.Result.of(job, given["argmax"], given["dtype"], given["fill"], gaps)
    if given["dry_run"]:
        with around():
            click.echo(result.explained(output, mask))
        click.echo(f"writes   {result.said(output)}")
        return
    begin = time.perf_counter()
    with locks.alone(output):
        files.check_new(output, given["overwrite"], given["resume"])  # a run may just have ended
        ran = result.write(output, mask, given["resume"], around)
    if not given["quiet"]:
        seconds = f"{time.perf_counter() - begin:.3g} s"
        click.echo(f"{result.said(output)} in {seconds}{ran and f', by {ran}'}", err=True)


def _job(
    f: Any, image: files.Image, axis: Any, given: dict[str, Any]
) -> tuple[running.Job, Any, files.Image | None]:
    """The job, if there is something to compute, and the file it reads."""
    nodata = given["nodata"] if given["nodata"] is not None else image.nodata
    job = running.Job(f, image, axis, nodata)
    if given["mask"] is None:
        return job, None, None
    return job, *masks.read(given["mask"], image, job.batch, given["ignore_place"])


@commands.command("explain")
@_of_a_model
def explain_(f: Any, image: files.Image, axis: Any) -> None:
    """Say what would run on the slices of INPUT, and how fast it can be."""
    job = running.Job(f, image, axis, image.nodata)
    result = running.Result.of(job, labels=False, dtype=None, fill=0, gaps=True)
    click.echo(result.explained(None))


@commands.command()
@_of_a_model
@_inside
@click.option(
    "--slices",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Number of slices to compare.",
)
def check(f: Any, image: files.Image, axis: Any, slices: int, **given: Any) -> None:
    """Compare the results of a sample of slices with those of the plain loop."""
    job, mask, _ = _job(f, image, axis, given)
    count, largest, part = running.parity(job, slices, mask)
    said = f"{count} slices, largest difference {largest:.3g} ({part:.2g} of the largest result)"
    if part > _ROUNDING:
        raise click.ClickException(f"not what the loop gives: {said}")
    click.echo(f"as the loop: {said}")


@commands.command()
def doctor() -> None:
    """Say what there is to run with: libraries, GPUs, compilers, caches."""
    from . import doctor

    said = doctor.report()
    click.echo(said)
    if "WRONG" in said:
        raise click.ClickException("an engine is wrong on this machine: please report it")


@commands.command()
@click.option(
    "-o",
    "--output",
    default="out/denoised.png",
    show_default=True,
    metavar="PNG",
    type=click.Path(path_type=Path),
)
@click.option("--small", is_flag=True, help="A few slices of one point in time.")
@click.option("--seed", default=1, show_default=True, help="Seed of the noise.")
def demo(output: Path, small: bool, seed: int) -> None:
    """A trained network at every voxel of a real MRI volume, with times and a picture."""
    try:
        from . import demo as it
    except ImportError as error:
        raise click.ClickException(f"pip install 'xpapply[demo]' ({error})") from None
    it.show(output, small, seed)


__all__ = ["check", "commands", "demo", "doctor", "explain_", "run"]
