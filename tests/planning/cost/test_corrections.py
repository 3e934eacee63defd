"""The factors of a profile's corrections multiply what is predicted from its measurements, each once."""

from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import STRATEGIES, plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.profile.corrections import SPLITS, Corrections, LayerFactor
from hetero_mtf.planning.profile.curve import PASSES
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import with_twin
from tests.planning.networks import in_slabs, pair_net, profile_of, with_rest

MEASURED = in_slabs(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 0.3, 1e5))
FED = dataclasses.replace(MEASURED, launch_s=0.5, feed_s_per_byte=1e-5)
STRATEGY_NAMES = [name for name in STRATEGIES if name != "grid"]


def all_layers(profile: Profile, factor: float) -> tuple[LayerFactor, ...]:
    kinds = sorted({(curve.layer, curve.device) for curve in profile.curves})
    return tuple(LayerFactor(*kind, split, step_pass, factor) for kind in kinds for split in SPLITS for step_pass in PASSES)


def corrected(profile: Profile, **factors: float) -> Profile:
    layers = all_layers(profile, factors.pop("layers", 1.0))
    return dataclasses.replace(profile, corrections=Corrections(layers, **factors))


@pytest.mark.parametrize("profile", [FED, with_rest(FED, lambda device: 0.8)], ids=["together", "some alone"])
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
@pytest.mark.parametrize("names", [("layers",), ("links",), ("launch",), ("layers", "links", "launch")])
def test_a_factor_multiplies_its_part_of_the_step_and_nothing_else(profile: Profile, strategy: str, names: tuple[str, ...]) -> None:
    stage = plan(profile, strategy=strategy).stages[0]
    before = predict(Costs(profile), stage)
    after = predict(Costs(corrected(profile, **dict.fromkeys(names, 2.0))), stage)
    times = {name: 2.0 if name in names else 1.0 for name in ("layers", "links", "launch")}
    assert after.launch_s == pytest.approx(times["launch"] * before.launch_s)
    for one, other in zip(before.parts, after.parts):
        assert other.compute_s == pytest.approx(times["layers"] * one.compute_s)
        assert other.communication_s == pytest.approx(times["links"] * one.communication_s)


def test_a_factor_is_that_of_its_device_split_and_pass() -> None:
    factors = (LayerFactor(1, 1, "samples", "backward", 3.0),)
    changed = dataclasses.replace(MEASURED, corrections=Corrections(factors))
    before, after = Costs(MEASURED).tables, Costs(changed).tables
    for layout in ("batch", "column", "replicated"):
        for step_pass in ("forward", "backward"):
            times = 3.0 if (layout, step_pass) == ("batch", "backward") else 1.0
            rows, others = before.rows(1, layout, step_pass), after.rows(1, layout, step_pass)
            assert others[0] == pytest.approx(rows[0]) and others[1] == pytest.approx(times * rows[1])


def test_each_further_message_takes_the_factor_of_the_links() -> None:
    links = tuple(dataclasses.replace(link, message_s=0.1) for link in MEASURED.links)
    assert Costs(corrected(dataclasses.replace(MEASURED, links=links), links=2.0)).message_s == pytest.approx(0.2)


def test_a_twin_has_the_factors_of_its_original() -> None:
    twin = with_twin(corrected(MEASURED, layers=2.0), "worker:1")
    rows = Costs(twin).tables.rows(1, "replicated", "forward")
    assert rows[2] == pytest.approx(rows[1])
