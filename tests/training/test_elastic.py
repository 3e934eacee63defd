"""Training that goes on without workers that are lost has the numbers of the undisturbed one, and sees each batch once."""

import dataclasses
import os
import signal
import time
import types

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.devices.records import ClusterRecord, MemoryPool
from hetero_mtf.errors import DeviceMemoryError, PlanError, WorkerError
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.program.engine import Engine
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.run.elastic import RETRIES, Elastic, on_part, to_leave_out
from tests.planning.networks import pair_net, profile_of

STEPS, EPOCHS = 8, 5
WAIT = "wait"  # for so many seconds


def network():
    keras.utils.set_random_seed(5)
    x = image = keras.Input((8, 8, 3), dtype="float64")
    for filters in (8, 12):
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False, dtype="float64")(x)
        x = keras.layers.BatchNormalization(dtype="float64")(x)
        x = keras.layers.ReLU(dtype="float64")(x)
    x = keras.layers.Dropout(0.3, seed=3, dtype="float64")(keras.layers.GlobalAveragePooling2D(dtype="float64")(x))
    model = keras.Model(image, keras.layers.Dense(4, dtype="float64")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def data():
    rng = np.random.default_rng(1)
    return rng.normal(size=(STEPS * 16, 8, 8, 3)), rng.integers(0, 4, STEPS * 16)


class Ends(keras.callbacks.Callback):
    """Counts batches, and ends workers before some of them."""

    def __init__(self, cluster, ends):
        super().__init__()
        self.cluster, self.ends, self.batches, self.processes = cluster, dict(ends), [], cluster.process_ids()

    def on_train_batch_begin(self, batch, logs=None):
        self.end(self.ends.pop(len(self.batches), ()))

    def end(self, workers):
        for worker, how in workers:
            if how == WAIT:
                time.sleep(worker)
            else:
                os.kill(self.processes[worker], how)

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append((batch, logs["loss"]))


def trained(ends, elastic=True, shares=(0.5, 0.3, 0.3), by="distribute", split=False, before=()):
    """Return what a training gives whose workers end before some batches.

    Parameters
    ----------
    ends : number of a batch -> workers, and the signals that they get.
    by : "distribute", by which the model has the weights after each batch, or "trainer", by which steps are taken again.
    split : whether training is under a plan for all devices that is given, rather than under plans that are tried.
    before : workers, and the signals that they get before training begins.
    """
    keras.config.set_floatx("float64")
    model = network()
    with hm.Cluster.emulate(shares, worker_timeout_s=2.0) as cluster:
        plan = hm.Plan.filters(model, shares, cluster, 16) if split else None
        seen = Ends(cluster, ends)
        x, y = data()
        options = {"batch_size": 16, "epochs": EPOCHS, "shuffle": False, "verbose": 0, "callbacks": [seen]}
        options["validation_data"] = (x[:16], y[:16])
        if by == "distribute":
            distributed = hm.distribute(model, cluster, plan=plan, elastic=elastic)
            seen.end(before)
            history = distributed.fit(x, y, **options).history
            hm.undistribute(model)
        else:
            with hm.Trainer(model, plan, cluster, elastic=elastic) as trainer:
                seen.end(before)
                history = trainer.fit(x, y, **options).history
                model = trainer.to_keras()
        left_out = cluster.left_out
    for process in seen.processes:
        assert not os.path.exists(f"/proc/{process}")
    return seen.batches, history, model.get_weights(), left_out


def check_alike(one, other):
    batches, history, weights, _ = zip(one, other)
    assert len(batches[0]) == STEPS * EPOCHS and [batch for batch, _ in batches[0]] == [batch for batch, _ in batches[1]]
    np.testing.assert_allclose([loss for _, loss in batches[0]], [loss for _, loss in batches[1]], rtol=1e-8)
    for name in history[0]:
        np.testing.assert_allclose(history[0][name], history[1][name], rtol=1e-8, err_msg=name)
    for mine, undisturbed in zip(*weights):
        np.testing.assert_allclose(mine, undisturbed, rtol=1e-8, atol=1e-11)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HETERO_MTF_CACHE", str(tmp_path_factory.mktemp("cache")))
        return trained({}, elastic=False)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HETERO_MTF_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["distribute", "trainer"])
@pytest.mark.parametrize(
    "ends, split",
    [
        pytest.param({13: [(1, signal.SIGKILL)]}, False, id="another one is killed"),
        pytest.param({13: [(0, signal.SIGKILL)]}, False, id="the one in use is killed, which has the master"),
        pytest.param({13: [(2, signal.SIGKILL)]}, True, id="one of those in use is killed"),
        pytest.param({5: [(2, signal.SIGKILL)], 21: [(0, signal.SIGKILL)]}, True, id="one after another"),
        pytest.param({9: [(1, signal.SIGKILL), (2, signal.SIGKILL)]}, True, id="two at once"),
        pytest.param({13: [(1, signal.SIGSTOP)]}, True, id="one hangs"),
        pytest.param({13: [(0, signal.SIGSTOP)]}, True, id="the one with the master hangs"),
    ],
)
def test_training_goes_on_with_the_numbers_of_the_undisturbed_one(undisturbed, ends, split, by, capsys):
    got = trained(ends, by=by, split=split)
    assert set(got[3]) == {worker for lost in ends.values() for worker, _ in lost}
    said = capsys.readouterr().err
    assert "training goes on with" in said
    assert by == "distribute" or not split or "steps again" in said
    check_alike(got, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["distribute", "trainer"])
@pytest.mark.parametrize("split", [False, True], ids=["there is no plan yet", "a plan is given"])
@pytest.mark.parametrize("lost", [[1], [0], [0, 2]], ids=str)
def test_workers_that_are_lost_before_the_first_step_are_left_out(undisturbed, lost, split, by, capsys):
    got = trained({}, by=by, split=split, before=[(worker, signal.SIGKILL) for worker in lost])
    assert got[3] == tuple(lost)
    said = capsys.readouterr().err
    assert ("training goes on with" if split and by == "trainer" else "was killed by SIGKILL; training begins on the others") in said
    check_alike(got, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["distribute", "trainer"])
def test_a_device_that_runs_out_of_memory_is_given_less(undisturbed, by, monkeypatch, capsys):
    advance, plans = Engine.advance, []

    def full(engine, *given):
        plans.append(engine.plan)
        if len(plans) == 14:
            raise DeviceMemoryError("worker:2 ran out of memory: there was no room for a tensor", "use less", "worker:2")
        return advance(engine, *given)

    monkeypatch.setattr(Engine, "advance", full)
    got = trained({}, by=by, split=True)
    assert got[3] == () and plans[13] is plans[0] and plans[-1] is not plans[0]
    assert "worker:2 ran out of memory: there was no room for a tensor; training goes on with" in capsys.readouterr().err
    check_alike(got, undisturbed)


def test_where_a_device_was_full_the_next_plan_needs_less_there():
    drawn = profile_of(pair_net(8, 8, 4), [1e6, 1e6, 1e6], bandwidth=1e9)
    devices = tuple(dataclasses.replace(device, pool=device.name) for device in drawn.cluster.devices)  # as GPUs have
    pools = tuple(MemoryPool(device.name, 2**34) for device in devices)
    profile = dataclasses.replace(drawn, cluster=ClusterRecord(devices, pools), memory=pools)
    plans = types.SimpleNamespace(plan=hm.plan(profile), begin_again=lambda plan, *rest, **options: begin(plan))
    plans.in_force = types.SimpleNamespace(free=lambda: None)
    plans.controller = Controller(profile, plans.plan, explores=False)
    cluster = types.SimpleNamespace(devices=devices, left_out=())
    elastic = Elastic(types.SimpleNamespace(cluster=cluster), plans)

    def need(plan):
        return sum(part.memory_bytes for part in plan.predicted.parts if part.device == "worker:1")

    needs = [need(plans.plan)]

    def begin(plan):
        plans.plan = plan
        needs.append(need(plan))
        return Controller(profile, plan, explores=False)

    elastic.mirror.take(dict)
    fault = DeviceMemoryError("worker:1 ran out of memory", "use less", "worker:1")
    elastic.go_on(fault, 3)
    assert needs[1] <= 0.8 * needs[0]
    for device in ("worker:0", "worker:2"):
        elastic._room[device] = 0
    with pytest.raises(PlanError, match="worker:1 ran out of memory, and no plan for .* alone has the same numbers and fits in memory"):
        elastic.go_on(fault, 3)
    with pytest.raises(DeviceMemoryError):
        elastic.go_on(DeviceMemoryError("a device ran out of memory", "use less"), 3)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["distribute", "trainer"])
def test_a_worker_that_is_back_is_used_again_under_the_plan_of_before(undisturbed, by, monkeypatch, capsys):
    advance, plans = Engine.advance, []
    monkeypatch.setattr(Engine, "advance", lambda engine, *given: plans.append(engine.plan) or advance(engine, *given))
    waits = {at: [(1.2, WAIT)] for at in range(18, 24)}
    got = trained({9: [(1, signal.SIGSTOP)], 17: [(1, signal.SIGCONT)], **waits}, by=by, split=True)
    assert got[3] == () and len({plan.devices for plan in plans}) == 2 and plans[-1] is plans[0]
    assert "worker:1 is back; training goes on with" in capsys.readouterr().err
    check_alike(got, undisturbed)


@pytest.mark.slow
def test_a_worker_is_back_after_another_one_was_lost_under_a_plan_without_a_profile(undisturbed, capsys):
    waits = {at: [(1.2, WAIT)] for at in range(22, 28)}
    got = trained({9: [(1, signal.SIGSTOP)], 17: [(2, signal.SIGKILL)], 21: [(1, signal.SIGCONT)], **waits}, by="trainer", split=True)
    assert got[3] == (2,)
    assert "worker:1 is back; training goes on with" in capsys.readouterr().err
    check_alike(got, undisturbed)


@pytest.mark.slow
def test_no_training_goes_on_that_was_not_asked_to_or_has_no_worker_left():
    with pytest.raises(WorkerError, match="worker:1 was killed by SIGKILL"):
        trained({5: [(1, signal.SIGKILL)]}, elastic=False, shares=(0.5, 0.3))
    with pytest.raises(WorkerError, match="worker:. was killed by SIGKILL"):
        trained({5: [(0, signal.SIGKILL), (1, signal.SIGKILL)]}, shares=(0.5, 0.3))


def test_a_loss_that_is_named_a_moment_later_is_waited_for(monkeypatch):
    named = WorkerError("worker:1 was killed", "open the cluster again", [(1,)])
    faults = iter([None, WorkerError("the step ended"), named])
    cluster = types.SimpleNamespace(fault=lambda: next(faults), left_out=(), leave_out=lambda workers: left_out.append(workers))
    elastic, left_out, begun = Elastic(types.SimpleNamespace(cluster=cluster), types.SimpleNamespace(controller=None)), [], []
    monkeypatch.setattr(elastic, "_begin_again", lambda fault, step, reason: begun.append((fault, step, reason)))
    elastic.mirror.take(dict)
    elastic.go_on(WorkerError("a worker stopped answering"), 7)
    assert left_out == [{1}] and begun == [(named, 7, "worker:1 was killed")]
    losses = [WorkerError("worker:3 has not answered", "", [(3,)])]

    def lose_another(fault, step, reason):
        if losses:
            raise losses.pop()
        begun.append((fault.lost, step, reason))

    monkeypatch.setattr(elastic, "_begin_again", lose_another)
    elastic.go_on(named, 8)
    assert left_out[1:] == [{1}, {3}] and begun[1:] == [(((3,),), 8, "worker:1 was killed, worker:3 has not answered")]


def test_a_plan_that_does_not_use_what_is_lost_goes_on() -> None:
    profile = profile_of(pair_net(8, 8, 4), [1e6, 1e6, 1e6], bandwidth=1e9)
    plan = hm.Plan.filters(profile.graph, [2, 0, 1], profile.cluster, profile.batch_size)
    part = on_part(plan, Costs(profile.part([0, 2])))
    assert part.devices == ("worker:0", "worker:2") and [stage.devices for stage in part.stages] == [(0, 1)]
    assert [stage.layouts for stage in part.stages] == [stage.layouts for stage in plan.stages] and part.predicted is None
    assert on_part(plan, Costs(profile.part([0, 1]))) is None
    alone = hm.plan(profile, strategy="single")
    (kept,) = {alone.devices[device] for device in alone.used}
    others = [at for at, device in enumerate(profile.cluster.devices) if device.name != kept]
    at = next(at for at, device in enumerate(profile.cluster.devices) if device.name == kept)
    left = on_part(alone, Costs(profile.part(sorted([at, others[0]]))))
    assert {left.devices[device] for device in left.used} == {kept} and left.predicted.step_s == pytest.approx(alone.predicted.step_s)


def test_a_plan_is_gone_back_to_where_it_has_the_same_numbers_and_a_prediction() -> None:
    profile = profile_of(pair_net(8, 8, 4), [1e6, 1e6, 1e6], bandwidth=1e9)
    whole = hm.Plan.filters(profile.graph, [2, 1, 1], profile.cluster, profile.batch_size)
    left = profile.part([0, 1])
    present = hm.Plan.filters(profile.graph, [2, 1], left.cluster, profile.batch_size)
    elastic = Elastic(types.SimpleNamespace(), types.SimpleNamespace(best_plan=present))
    assert elastic._plan_of_before(profile, present) is None
    elastic._had[whole.devices] = whole
    assert elastic._plan_of_before(profile, present) is whole
    assert elastic._plan_of_before(profile, dataclasses.replace(present, batch_size=2 * present.batch_size)) is None
    stages = [0, 2], [[0], [1]], [[1], [1]]
    elastic._had[whole.devices] = hm.Plan.pipeline(profile.graph, *stages, profile.cluster, profile.batch_size, schedule="synchronous")
    assert elastic._plan_of_before(profile, present) is None


def test_no_room_to_measure_ends_a_training_with_what_it_lacked(monkeypatch) -> None:
    in_force = types.SimpleNamespace(free=lambda: None)
    plans = types.SimpleNamespace(controller=None, plan=types.SimpleNamespace(batch_size=8), in_force=in_force)
    elastic = Elastic(types.SimpleNamespace(cluster=types.SimpleNamespace(fault=lambda: None, left_out=())), plans)
    elastic.mirror.take(dict)

    def measured(batch_size):
        raise DeviceMemoryError("worker:1 ran out of memory", "use less", "worker:1")

    monkeypatch.setattr(elastic, "_profile", measured)
    with pytest.raises(DeviceMemoryError, match="worker:0"):
        elastic.go_on(DeviceMemoryError("worker:0 ran out of memory", "use less", "worker:0"), 5)


def test_a_worker_may_be_lost_while_the_others_are_planned_for(monkeypatch):
    cluster = types.SimpleNamespace(fault=lambda: None, left_out=(), leave_out=lambda workers: left_out.append(workers))
    elastic, left_out = Elastic(types.SimpleNamespace(cluster=cluster), types.SimpleNamespace(controller=None, plan=None)), []
    losses = [WorkerError("worker:2 was killed", "", [(2,)])]

    def measured(batch_size):
        if losses:
            raise losses.pop()

    monkeypatch.setattr(elastic, "_profile", measured)
    assert elastic.planned_without(WorkerError("worker:0 was killed", "", [(0,)]), None, None) == (None, None)
    assert left_out == [{0}, {2}]
    losses.append(WorkerError("worker:1 was killed", "", [(1,)]))
    elastic.mirror.take(dict)
    monkeypatch.setattr(elastic, "_make_room", lambda fault: measured(8) is None)
    monkeypatch.setattr(elastic, "_begin_again", lambda fault, step, reason: begun.append(reason))
    begun = []
    elastic.go_on(DeviceMemoryError("worker:0 ran out of memory", "use less", "worker:0"), 5)
    assert left_out[2:] == [{1}] and begun == ["worker:1 was killed"]


def test_a_step_is_tried_again_where_nothing_is_known_to_be_wrong_with_workers(monkeypatch):
    monkeypatch.setattr("hetero_mtf.training.run.elastic.NAMED_S", 0.1)
    known = []
    cluster = types.SimpleNamespace(fault=lambda: known[0] if known else None, left_out=())
    elastic, begun = Elastic(types.SimpleNamespace(cluster=cluster), types.SimpleNamespace(controller=None)), []
    monkeypatch.setattr(elastic, "_begin_again", lambda fault, step, reason: begun.append((step, reason)))
    elastic.mirror.take(dict)
    fault = WorkerError("a worker stopped answering")
    for _ in range(RETRIES):
        elastic.go_on(fault, 7)
    with pytest.raises(WorkerError, match="a worker stopped answering"):
        elastic.go_on(fault, 7)
    elastic.go_on(fault, 9)
    assert begun == [(7, "a worker stopped answering")] * RETRIES + [(9, "a worker stopped answering")]
    known.append(WorkerError("the connection to the cluster is closed"))
    with pytest.raises(WorkerError, match="a worker stopped answering"):
        elastic.go_on(fault, 10)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["distribute", "trainer"])
@pytest.mark.parametrize("split", [False, True], ids=["plans are tried", "a plan is given"])
def test_a_step_that_fails_with_all_workers_there_is_taken_again_on_them(undisturbed, split, by, monkeypatch, capsys):
    advance, plans = Engine.advance, []

    def broken(engine, *given):
        plans.append(engine.plan)
        if len(plans) in (14, 15):
            raise WorkerError("a worker stopped answering (Connection reset by peer)")
        return advance(engine, *given)

    monkeypatch.setattr(Engine, "advance", broken)
    got = trained({}, by=by, split=split)
    assert got[3] == () and {plan.built_from for plan in plans[13:16]} == {plans[13].built_from}
    assert "a worker stopped answering (Connection reset by peer); training goes on with" in capsys.readouterr().err
    check_alike(got, undisturbed)


def test_the_worker_is_left_out_that_most_others_do_not_reach_and_the_slowest_of_two():
    assert to_leave_out([(1,), (1, 2)], {}) == {1} and to_leave_out([], {}) == set()
    assert to_leave_out([(0, 1), (0, 2)], {1: 9.0}) == {0}
    assert to_leave_out([(0, 1)], {0: 2.0, 1: 1.0}) == {0} and to_leave_out([(0, 1)], {}) == {1}
    assert to_leave_out([(0, 1), (2, 3)], {0: 2.0, 1: 1.0, 2: 1.0, 3: 3.0}) == {0, 3}


def test_a_worker_that_is_back_and_cannot_be_used_yet_is_left_out_again(monkeypatch):
    left_out, begun = [], []
    cluster = types.SimpleNamespace(left_out=(1,), devices=[types.SimpleNamespace(name="worker:0")], returned=lambda: (1,))
    cluster.leave_out = lambda workers: left_out.append(set(workers))
    plans = types.SimpleNamespace(controller=None, plan=types.SimpleNamespace(devices=("worker:0",)))
    elastic = Elastic(types.SimpleNamespace(cluster=cluster), plans)

    def fail(fault, step, reason):
        begun.append(reason)
        if len(begun) % 2:
            raise failures[0]

    monkeypatch.setattr(elastic, "_begin_again", fail)
    failures = [WorkerError("a worker stopped answering")]
    elastic.take_in(dict, 5)
    assert left_out == [set(), {1}] and begun == ["worker:1 is back"]
    elastic.take_in(dict, 6)  # not so soon
    assert len(begun) == 1
    begun.clear()
    plans.plan.devices = ("worker:0", "worker:1")  # which it had begun to train under
    elastic._looked_at_s = 0.0
    elastic.take_in(dict, 7)
    assert begun == ["worker:1 is back", "a worker stopped answering"] and left_out[2:] == [set(), {1}]
    begun.clear()
    elastic._looked_at_s, failures[0] = 0.0, WorkerError("worker:0 was killed", "", [(0,)])
    with pytest.raises(WorkerError, match="worker:0 was killed"):
        elastic.take_in(dict, 8)
