"""Names of the files that commands write and look for beside the files of a run."""

from __future__ import annotations

import os
import pathlib
import re


def beside(path: str | os.PathLike[str], kind: str) -> pathlib.Path:
    """Return where a run keeps a file of a kind beside one of its files.

    Parameters
    ----------
    path : path of a file of the run.
    kind : "profile", "plan", "plans", "measured", or "data" for the description of the volumes that a network was trained on.

    Examples
    --------
    >>> str(beside("run/state.npz", "data"))
    'run/state-data.json'
    """
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-{kind}.json")


def curves_beside(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return where the picture of the curves of some predictions is kept beside them.

    Parameters
    ----------
    path : the table of the predictions.

    Examples
    --------
    >>> str(curves_beside("run/predictions.tsv"))
    'run/predictions-curves.png'
    """
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-curves.png")


def of_fold(path: str | os.PathLike[str], fold: int) -> pathlib.Path:
    """Return where a run of all folds keeps its file of one of them.

    Parameters
    ----------
    path : path of the file where there is one fold only.
    fold : number of the fold, from 1.

    Examples
    --------
    >>> str(of_fold("run/state.npz", 2))
    'run/state-fold2.npz'
    """
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-fold{fold}{path.suffix}")


def config_file(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return where the options of a run are written beside one of its files.

    Parameters
    ----------
    path : path of a file of the run.

    Examples
    --------
    >>> str(config_file("run/state.npz"))
    'run/state-config.yaml'
    """
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-config.yaml")


def best_file(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return where the state or model of the best epoch is saved beside that of the last.

    Parameters
    ----------
    path : path of the last one's file.

    Examples
    --------
    >>> str(best_file("run/state.npz"))
    'run/state-best.npz'
    """
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-best{path.suffix}")


def step_file(path: str | os.PathLike[str], step: int) -> pathlib.Path:
    """Return where the state after a step is kept beside the newest.

    Parameters
    ----------
    path : path of the newest state.
    step : number of steps taken.

    Examples
    --------
    >>> str(step_file("run/state.npz", 24))
    'run/state-step24.npz'
    """
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-step{step}{path.suffix}")


def step_files(path: str | os.PathLike[str], up_to: int) -> list[pathlib.Path]:
    """Return the states that were kept beside the newest, in the order of their steps.

    Parameters
    ----------
    path : path of the newest state.
    up_to : the last step that counts.
    """
    path = pathlib.Path(path)
    form = re.compile(rf"{re.escape(path.stem)}-step(\d{{1,12}}){re.escape(path.suffix)}")
    named = [(int(match[1]), entry) for entry in path.parent.glob("*") if (match := form.fullmatch(entry.name))]
    return [entry for step, entry in sorted(named) if step <= up_to]


def beside_plan(plan: str, kind: str) -> pathlib.Path:
    """Return where a file of another kind is looked for beside a plan.

    Parameters
    ----------
    plan : path of the plan.
    kind : "profile" or "measured".

    Examples
    --------
    >>> beside_plan("run/digits-plan.json", "profile").name, beside_plan("best.json", "measured").name
    ('digits-profile.json', 'measured.json')
    """
    path = pathlib.Path(plan)
    return path.with_name(path.name.replace("plan", kind) if "plan" in path.name else f"{kind}.json")
