"""The plan of a trainer that was given none: measured, planned and refined on first use, and kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import inspect
import json
import pathlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import keras

from hetero_mtf.calibration.calibrate import calibrate, calibrate_in_turns, rough_calibration, versions
from hetero_mtf.calibration.turns import Turns
from hetero_mtf.devices import environment
from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.candidates import first_plan
from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.planning.exploration.records import Learnt
from hetero_mtf.planning.names import FIRST, NEVER, STEPS
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import check_profile, outdated
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.planning.refinement.loop import Refinement
from hetero_mtf.program.losses import read_loss
from hetero_mtf.program.optimizer_reading import keras_optimizer
from hetero_mtf.program.plan_checks import check_cluster, check_plan
from hetero_mtf.training.refine import refine
from hetero_mtf.units import seconds_text

CACHE = "HETERO_MTF_CACHE"
"""Environment variable of the folder in which profiles and plans are kept."""
_WITHOUT_COST = frozenset({"learning_rate", "name"})
Explored = Callable[[Learnt], None]
_Document = TypeVar("_Document", Profile, Plan)


@dataclasses.dataclass(frozen=True)
class Task:
    """What is to be trained.

    Parameters
    ----------
    model, graph : the Keras model and its LayerGraph.
    cluster : live cluster.
    batch_size : samples a batch.
    settings : optimizer, loss and loss_weights, as for `refine`.
    """

    model: Any
    graph: LayerGraph
    cluster: Any
    batch_size: int
    settings: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Choice:
    """A plan that was chosen.

    Parameters
    ----------
    plan : the plan.
    refinement : by which it was chosen; None where there is nothing to choose from, or it was chosen before.
    profile : the refined profile; None where there is nothing to choose from.
    is_rough : whether the profile is made of operation counts.
    calibrate : measures a profile in turns with steps; None where none is wanted.
    explored : called with what was learnt when training steps have tried other plans; None where they try none.
    repeats : the plans of an earlier training, which are gone through again; None elsewhere.
    """

    plan: Plan
    refinement: Refinement | None = None
    profile: Profile | None = None
    is_rough: bool = False
    calibrate: Callable[[Turns], Profile] | None = None
    explored: Explored | None = None
    repeats: PlanHistory | None = None


def cache_folder() -> pathlib.Path:
    """Return the folder in which profiles and plans are kept: `HETERO_MTF_CACHE`, or hetero_mtf in the user's folder of caches."""
    variables = environment.variables()
    own = variables.get(CACHE)
    return pathlib.Path(own) if own else environment.user_caches(variables) or pathlib.Path.home() / ".cache" / "hetero_mtf"


def choose_plan(task: Task, refine_s: float, verbose: str | int = "auto", measure: str | PlanHistory = FIRST) -> Choice:
    """Return the plan with the best measured step for a network on a cluster, and say in one line what it is.

    On the first use of a network, devices, batch size and optimizer they are measured (about 45 s, or longer for many distinct layers),
    and the plan is refined. Both are kept; later uses take them as long as the profile is valid: of these devices, of these versions of
    TensorFlow and Keras, and not older than 30 days. A profile that is not is measured again, as far as it has changed.

    Parameters
    ----------
    task : what is to be trained.
    refine_s : seconds after which no further plan is tried.
    verbose : 0 for no progress and no line.
    measure : as `read_measure` returns it.

    Raises
    ------
    HeteroError
        If something asked for is not supported, or a worker dies.
    PlanError
        If there is no plan, and none may be measured.
    """
    if isinstance(measure, PlanHistory):
        return _repeated(task, measure, verbose)
    if len(task.cluster.devices) == 1:
        return Choice(Plan.single(task.graph, 0, task.cluster, task.batch_size))
    folder = cache_folder()
    name = _name(task)
    profile_file, plan_file = _files(folder, name, is_rough=False)
    earlier = _kept_profile(profile_file, task, verbose)
    if earlier is not None and not outdated(earlier, datetime.datetime.now(datetime.timezone.utc), versions()):
        plan = _kept_plan(plan_file, task, verbose)
        if plan is not None:
            say(f"{_text(plan)}; measured {earlier.measured_at[:10]}, kept in {folder}", verbose)
            return Choice(plan, profile=earlier)
        profile = earlier
        if measure in (NEVER, STEPS):
            plan = make_plan(profile)
            tries = "; its steps try other plans" if measure == STEPS else ""
            say(f"training begins with {_text(plan)}, by the profile of {profile.measured_at[:10]} kept in {folder}{tries}", verbose)
            return Choice(plan, profile=profile, explored=functools.partial(_keep_learnt, folder, name) if measure == STEPS else None)
    elif measure == NEVER:
        raise PlanError("there is no plan for this network, and none is measured", "give a plan, or let the devices be measured")
    elif measure == STEPS:
        return _first_plan(task, folder, name, verbose)
    else:
        optimizer = task.settings["optimizer"]
        profile = calibrate(task.cluster, task.model, task.batch_size, optimizer=optimizer, earlier=earlier, verbose=verbose)
    refinement = refine(None, profile, task.model, task.cluster, **task.settings, time_limit_s=refine_s)
    where = _keep({profile_file: refinement.profile, plan_file: refinement.plan})
    say(f"{_text(refinement.plan)}, measured {seconds_text(refinement.best.median_s)}{_gain(refinement)}; {where}", verbose)
    return Choice(refinement.plan, refinement, refinement.profile)


def resumed_choice(task: Task, plan: Plan, measure: str | PlanHistory) -> Choice | None:
    """Return the plan that an earlier training was saved under, to go on with and to try others where steps do; None where it does not fit.

    Parameters
    ----------
    task : what is to be trained.
    plan : the plan.
    measure : as `read_measure` returns it; not to measure before training.

    Raises
    ------
    HeteroError
        If a plan to be repeated does not fit, or a worker dies.
    """
    if isinstance(measure, PlanHistory):
        return dataclasses.replace(_repeated(task, measure, "auto"), plan=plan)
    try:
        check_plan(plan, task.graph)
        check_cluster(plan, task.cluster)
    except PlanError:
        return None
    if measure == NEVER:
        return Choice(plan)
    choice = choose_plan(task, 0.0, 0, measure)
    if choice.profile is not None:
        try:
            prediction(Costs(choice.profile), plan)
        except PlanError:
            return None
    say(f"training goes on with {_text(plan)}{'; its steps try other plans' if choice.explored is not None else ''}", "auto")
    return dataclasses.replace(choice, plan=plan)


def _repeated(task: Task, history: PlanHistory, verbose: str | int) -> Choice:
    """Return the first plan of an earlier training of this network on this cluster."""
    for span in history.spans:
        check_plan(span.plan, task.graph)
        check_cluster(span.plan, task.cluster)
    if history.spans[0].plan.batch_size != task.batch_size:
        sizes = f"the plans to repeat are for batches of {history.spans[0].plan.batch_size} samples, and these have {task.batch_size}"
        raise PlanError(sizes, "train with the same batch size")
    say(f"training repeats {len(history.spans)} plans, the first {_text(history.spans[0].plan)}", verbose)
    return Choice(history.spans[0].plan, repeats=history)


def _first_plan(task: Task, folder: pathlib.Path, name: str, verbose: str | int) -> Choice:
    """Return the plan to begin with where training steps try others: that of an earlier training, or the best by a rough profile.

    The profile that steps have corrected is kept apart from calibrated ones, and the plan once no other one promised to be faster.
    """
    profile_file, plan_file = _files(folder, name, is_rough=True)
    profile = _kept_profile(profile_file, task, verbose)
    if profile is None or outdated(profile, datetime.datetime.now(datetime.timezone.utc), versions()):
        profile = rough_calibration(task.cluster, task.graph, task.batch_size, task.settings["optimizer"])
        plan = first_plan(profile)
        with contextlib.suppress(OSError):
            plan_file.unlink()  # that of a profile that holds no longer
        say(f"training begins with {_text(plan)}; its steps try other plans", verbose)
    elif (kept := _kept_plan(plan_file, task, verbose)) is not None:
        tried_at = profile.corrections.corrected_at or profile.measured_at
        say(f"{_text(kept)}; tried {tried_at[:10]}, kept in {folder}", verbose)
        return Choice(kept, profile=profile)
    else:
        plan = first_plan(profile)
        say(f"training goes on trying plans, first {_text(plan)}; profile of {profile.measured_at[:10]} kept in {folder}", verbose)
    explored = functools.partial(_keep_learnt, folder, name)
    return Choice(plan, profile=profile, is_rough=True, calibrate=calibration_in_turns(task), explored=explored)


def calibration_in_turns(task: Task) -> Callable[[Turns], Profile]:
    """Return what measures the profile of a cluster for a network in turns with steps.

    Parameters
    ----------
    task : what is trained.
    """
    optimizer = task.settings["optimizer"]
    return functools.partial(calibrate_in_turns, cluster=task.cluster, model=task.graph, batch_size=task.batch_size, optimizer=optimizer)


def _files(folder: pathlib.Path, name: str, is_rough: bool) -> tuple[pathlib.Path, pathlib.Path]:
    """Return the files of a profile and a plan: those that training steps have made are kept apart from measured ones."""
    kind = "steps-" if is_rough else ""
    return folder / f"{name}.{kind}profile.json", folder / f"{name}.{kind}plan.json"


def _keep_learnt(folder: pathlib.Path, name: str, learnt: Learnt) -> None:
    """Keep a profile as steps have corrected it, and its plan once no other one promised to be faster."""
    profile_file, plan_file = _files(folder, name, learnt.is_rough)
    _keep({profile_file: learnt.profile, **({plan_file: learnt.plan} if learnt.is_final else {})})


def _name(task: Task) -> str:
    """Return a name for files: of the network, the devices, the batch size and what is trained by.

    Of the optimizer and the losses that is their class and those options that decide what a step computes. Learning rates, loss weights
    and names do not; a real number of an optimizer of Keras does by whether it is 0, as a momentum that is 0 needs no slot.
    """
    policies = sorted({str(getattr(getattr(layer, "dtype_policy", None), "name", "")) for layer in task.model.layers})
    described = [
        [list(device.traits) for device in task.cluster.devices],
        _described(keras_optimizer(task.settings["optimizer"])),
        _described(_losses(task.settings["loss"])),
        policies,
    ]
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
    return f"{task.graph.digest}-{digest}-{task.batch_size}"


def _losses(loss: Any) -> Any:
    """Return losses as they are packed, with those that are named as objects or functions."""
    if isinstance(loss, Mapping):
        return {name: _losses(each) for name, each in loss.items()}
    if isinstance(loss, (list, tuple)):
        return [_losses(each) for each in loss]
    return None if loss is None else read_loss(loss)


def _described(value: Any, own: bool = False) -> Any:
    """Return what JSON can hold of an optimizer, a loss or one of their options.

    Parameters
    ----------
    own : whether it is an option of one of Keras's own optimizers.
    """
    if isinstance(value, Mapping):
        return {str(key): _described(each, own) for key, each in value.items() if key not in _WITHOUT_COST}
    if isinstance(value, (list, tuple)):
        return [_described(each, own) for each in value]
    if isinstance(value, float):
        return bool(value) if own else value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    kind = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
    name = f"{kind.__module__}.{getattr(kind, '__qualname__', '')}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about lambdas
            config = value.get_config()
    except Exception:  # a class of the user's own may have none, or one that raises whatever it likes
        return name
    return [name, _described(config, _is_own_optimizer(value))]


def _is_own_optimizer(value: Any) -> bool:
    return isinstance(value, keras.optimizers.Optimizer) and type(value) in vars(keras.optimizers).values()


def _kept_profile(path: pathlib.Path, task: Task, verbose: str | int = 0) -> Profile | None:
    """Return a profile that was kept; None where there is none, or none for this task: it is only a saving of time."""

    def read() -> Profile:
        profile = Profile.load(path)
        check_profile(profile, task.graph, task.cluster.record)
        return profile

    return _kept(path, read, task, verbose)


def _kept_plan(path: pathlib.Path, task: Task, verbose: str | int = 0) -> Plan | None:
    def read() -> Plan:
        plan = Plan.load(path)
        check_plan(plan, task.graph)
        check_cluster(plan, task.cluster)
        return plan

    return _kept(path, read, task, verbose)


def _kept(path: pathlib.Path, read: Callable[[], _Document], task: Task, verbose: str | int) -> _Document | None:
    """Return what a file holds; None where there is none, and with a line where it is damaged or of another task."""
    try:
        if not path.exists():
            return None
        document = read()
        if document.batch_size == task.batch_size:
            return document
        reason = f"it is for batches of {document.batch_size}"
    except (HeteroError, OSError, ValueError, RecursionError) as fault:
        reason = " ".join(str(fault).split())[:200]
    say(f"{path} is not used and will be replaced ({reason})", verbose)
    return None


def _keep(documents: Mapping[pathlib.Path, Profile | Plan]) -> str:
    """Keep profiles and plans by their files, and return where; a folder that cannot be written is no fault."""
    try:
        for path, document in documents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            document.save(path)
    except (OSError, HeteroError) as fault:
        return f"not kept ({' '.join(str(fault).split())})"
    return f"kept in {next(iter(documents)).parent}"


def _text(plan: Plan) -> str:
    used, of = len(plan.used), len(plan.devices)
    predicted = (
        "" if plan.predicted is None else f", {seconds_text(plan.predicted.step_s)} predicted for a step of {plan.batch_size} samples"
    )
    devices = f"device {plan.devices[plan.used[0]]} alone" if used == 1 else f"{used} of {of} devices"
    return f"strategy {plan.strategy} on {devices}{predicted}"


def _gain(refinement: Refinement) -> str:
    alone = [run.median_s for run in refinement.runs if len(run.plan.used) == 1]
    if not alone or len(refinement.plan.used) == 1:
        return ""
    return f", {min(alone) / refinement.best.median_s:.2f} times as fast as the best device alone"


def say(text: str, verbose: str | int) -> None:
    """Write a line on standard error.

    Parameters
    ----------
    verbose : 0 for none.
    """
    if verbose != 0:
        print(f"hetero_mtf: {text}", file=sys.stderr)
