"""Draw a cohort of brain scans of two classes: a stand-in for one that needs an application, such as ADNI.

    python -m tools.make_cohort cohort [--subjects 120] [--size 48] [--strength 1] [--seed 0] [--sessions 1]

Every subject is a deformed copy of one real T1 image, the ICBM 152 template inside the nilearn package (a development dependency; nothing
is downloaded). All differ in pose, size, shape and age, which thins the cortex everywhere, unevenly, and widens the ventricles. In half
of the subjects, labelled AD, folds of the cortex have widened and filled with fluid in a part of the brain drawn at random, and the
ventricle on that side is wider; --strength grades it, and at 0 the classes do not differ. Scanner noise, bias field, contrast and how the
file is written (axes, spacing, data type, compression) are drawn without regard to the class. The folds are in other places in every
subject, and as age takes more of the cortex than they do, a linear model of voxels sees little of them (tools/voxels.py).

The folder gets participants.tsv, which `--data nifti:` reads, and truth.tsv: what each subject has lost and where. No such scan is a
patient's, and no figure reached on them is one about dementia; ADNI's scans are read through the same table.
"""

from __future__ import annotations

import pathlib
import time

import click

from hetero_mtf.errors import HeteroError
from hetero_mtf.units import seconds_text


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("folder", type=click.Path(path_type=pathlib.Path, file_okay=False))
@click.option("--subjects", default=120, help="Subjects, half of them of each class.")
@click.option("--size", default=48, help="Voxels a side of the usual grid, which covers 192 mm.")
@click.option("--strength", default=1.0, help="Of the atrophy, 0 to 1.")
@click.option("--seed", default=0, help="Of everything that is drawn.")
@click.option("--sessions", default=1, help="Visits of each subject, each to another scanner.")
def main(folder: pathlib.Path, subjects: int, size: int, strength: float, seed: int, sessions: int) -> None:
    """Write a cohort into a new folder."""
    from tools.cohort.study import Study, write_study

    begun_s = time.perf_counter()
    try:
        path = write_study(Study(subjects, sessions, size, strength, seed), folder)
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    click.echo(f"{subjects * sessions} scans of {subjects} subjects in {seconds_text(time.perf_counter() - begun_s)}: {path}")


if __name__ == "__main__":
    main()
