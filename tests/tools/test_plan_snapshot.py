"""The comparison of plans before and after a change: every number counts, sentences do not."""

import dataclasses

import hetero_mtf as hm
from tests.planning.networks import pair_net, profile_of
from tools.plan_snapshot import answer, differences, questions

PROFILE = profile_of(pair_net(), [1e8, 5e7], batch_size=8)


def test_the_same_plan_does_not_differ_and_the_last_bit_of_a_number_does():
    plan = hm.plan(PROFILE, strategy="filters")
    assert plan.predicted is not None
    longer = dataclasses.replace(plan.predicted, step_s=plan.predicted.step_s * (1 + 2**-52))
    assert differences(plan.to_json(), hm.plan(PROFILE, strategy="filters").to_json()) == []
    assert len(differences(plan.to_json(), dataclasses.replace(plan, predicted=longer).to_json())) == 2


def test_sentences_are_not_compared_and_refusals_are():
    plan = hm.plan(PROFILE)
    reworded = tuple(dataclasses.replace(other, reason="because") for other in plan.alternatives)
    assert plan.alternatives and differences(plan.to_json(), dataclasses.replace(plan, alternatives=reworded).to_json()) == []
    refused = answer(questions(PROFILE)["grid"])
    assert refused == {"refused": "NothingToSplitError"} and differences(plan.to_json(), refused)
