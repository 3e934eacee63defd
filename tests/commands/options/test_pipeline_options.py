"""`hetero-mtf plan --strategy pipeline` with its options, and what explain says of pipelines: from files alone."""

import dataclasses
import datetime
import json
import re

import pytest

from hetero_mtf.commands.options.pipeline_options import PipelineChoice
from hetero_mtf.commands.output import search_progress
from hetero_mtf.commands.output.plan_report import plan_report
from hetero_mtf.commands.output.search_progress import SearchProgress
from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.simulator import ideal_bubble
from hetero_mtf.report.measured import Measured, MeasuredTask
from tests.planning.networks import profile_of, residual_net

ASKED = ["--strategy", "pipeline", "--microbatches", "4", "--stages", "2"]


@pytest.fixture(scope="module")
def made():
    """A profile and the pipeline of two stages that is planned from it."""
    profile = profile_of(residual_net(8), [1e6, 5e5, 3e5], 1e-4, batch_size=8)
    profile = dataclasses.replace(profile, measured_at=datetime.date.today().isoformat())
    return profile, plan(profile, strategy="pipeline", pipeline=PipelineOptions(microbatches=4, stages=2))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            PipelineChoice(allow_stale=True, schedule="1f1b", recompute=True),
            "--allow-stale .* takes no --schedule, --recompute; leave",
        ),
        (PipelineChoice(allow_stale=True, replicas=2), "takes no --replicas; leave out one or the other"),
        (PipelineChoice(allocator="exact", allocator_seed=1), "--seed is that of the allocator genetic, and --allocator is exact; leave"),
    ],
)
def test_options_of_a_pipeline_that_another_overrides_are_refused(choice, message):
    with pytest.raises(PlanError, match=message):
        choice.check("auto", False, "all_reduce")
    PipelineChoice(allow_stale=True, microbatches=4, allocator_seed=1).check("auto", False, "all_reduce")


@pytest.fixture
def place(made, tmp_path):
    """A folder with that profile.json and plan.json."""
    made[0].save(tmp_path / "profile.json")
    made[1].save(tmp_path / "plan.json")
    return tmp_path


@pytest.mark.slow
def test_the_plan_is_the_pipeline_asked_for(cli, made, place):
    options = ["--allocator", "genetic", "--schedule", "fill_drain", "--recompute", "--seed", "3"]
    said = cli("plan", place / "profile.json", *ASKED, *options, "-o", place / "out.json")
    assert (said.code, said.err) == (0, "")
    wish = PipelineOptions("genetic", 4, 2, "fill_drain", True, 3)
    found = Plan.load(place / "out.json")
    assert found == plan(made[0], strategy="pipeline", pipeline=wish)
    assert "fill_drain, 4 microbatches of 2 samples, activations recomputed" in said.out and "\nPartition: " in said.out
    assert re.search(r"^stage +devices +layers +from +to$", said.out, re.MULTILINE)
    assert cli("plan", place / "profile.json", *ASKED, "-o", place / "out.json").code == 0
    assert Plan.load(place / "out.json") == made[1]


@pytest.mark.slow
def test_replicas_are_planned_and_their_convergence_drawn(cli, tmp_path):
    profile = profile_of(residual_net(8), [4e6, 3e6, 2e6, 1e6], 1e-4, batch_size=8)
    profile = dataclasses.replace(profile, measured_at=datetime.date.today().isoformat())
    profile.save(tmp_path / "profile.json")
    asked = [*ASKED, "--replicas", "2", "--convergence", tmp_path / "c.svg"]
    said = cli("plan", tmp_path / "profile.json", *asked, "-o", tmp_path / "out.json")
    assert (said.code, said.err) == (0, "") and (tmp_path / "c.svg").exists()
    found = Plan.load(tmp_path / "out.json")
    assert found == plan(profile, strategy="pipeline", pipeline=PipelineOptions("genetic", 4, 2, replicas=2)) and len(found.replicas) == 2
    assert re.search(r"replicas of \d and \d samples", said.out)


def test_auto_takes_the_options_of_a_pipeline_too(cli, made, place):
    said = cli("plan", place / "profile.json", "--microbatches", "2", "-o", place / "out.json")
    assert said.code == 0 and Plan.load(place / "out.json") == plan(made[0], pipeline=PipelineOptions(microbatches=2))
    assert cli("plan", place / "profile.json", "-o", place / "out.json").code == 0
    assert Plan.load(place / "out.json") == plan(made[0])


@pytest.mark.fast(
    'options0---stages goes with --strategy pipeline or auto, not with batch; leave out one or',
    'options1---recompute, --seed go with --strategy pipeline or auto, not with grid; ',
    'options2---allocator goes with a profile, not with --shares; make a manual pipeline in Python, with',
    'options3---stages goes with --gradient-sync all_reduce, not with butterfly',
    'options4---convergence goes with --strategy pipeline, not with auto; leave out one or the other',
    'options5-draws generations, of which the allocator exact has none; add',
    'options6-a picture cannot be written to c.txt; end its name with .png, .svg, .pdf',
    'options7-cannot write none/c.png: there is no folder none; make it first',
    'options8-9 microbatches cannot be made of a batch of 8 samples; use from 1 to 8',
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "batch", "--stages", "2"], "--stages goes with --strategy pipeline or auto, not with batch; leave out one or"),
        (["--strategy", "grid", "--recompute", "--seed", "1"], "--recompute, --seed go with --strategy pipeline or auto, not with grid; "),
        (
            ["--shares", "1,1", "--allocator", "equal"],
            "--allocator goes with a profile, not with --shares; make a manual pipeline in Python, with",
        ),
        (["--gradient-sync", "butterfly_mixing", "--stages", "2"], "--stages goes with --gradient-sync all_reduce, not with butterfly"),
        (["--convergence", "c.png"], "--convergence goes with --strategy pipeline, not with auto; leave out one or the other"),
        ([*ASKED, "--convergence", "c.png", "--allocator", "exact"], "draws generations, of which the allocator exact has none; add"),
        ([*ASKED, "--convergence", "c.txt"], "a picture cannot be written to c.txt; end its name with .png, .svg, .pdf"),
        ([*ASKED, "--convergence", "none/c.png"], "cannot write none/c.png: there is no folder none; make it first"),
        (["--strategy", "pipeline", "--microbatches", "9"], "9 microbatches cannot be made of a batch of 8 samples; use from 1 to 8"),
        (["--strategy", "pipeline", "--stages", "40"], "40 stages"),
    ],
)
def test_what_cannot_be_asked_of_a_pipeline_is_one_sentence(cli, place, options, message):
    source = [] if "--shares" in options else [place / "profile.json"]
    assert message in cli("plan", *source, *options, "-o", place / "out.json").sentence
    assert not (place / "out.json").exists()


def test_the_generations_are_drawn_with_the_yardsticks(cli, place):
    said = cli("plan", place / "profile.json", *ASKED, "--convergence", place / "c.svg", "-o", place / "out.json")
    assert said.code == 0 and said.out.startswith(f"written to {place / 'c.svg'}\n")
    drawn = (place / "c.svg").read_text()
    assert all(f"<!-- {name}: " in drawn for name in ("equal partition", "proportional partition", "after local search", "optimum"))


def test_each_search_has_a_bar_of_its_own(monkeypatch):
    shown = []

    class Bar:
        def __enter__(self):
            shown.append([])
            return shown[-1].append

        def __exit__(self, *fault):
            shown[-1].append("closed")

    monkeypatch.setattr(search_progress, "progress", lambda title, total: Bar())
    with SearchProgress() as search:
        for generation, best_s in ((1, float("inf")), (2, 0.5), (1, 0.25)):
            search.generation(generation, 2, best_s)
    assert shown == [["nothing fits yet", "best 500 ms", "closed"], ["best 250 ms", "closed"]]
    assert PipelineChoice().given == () and PipelineChoice(stages=2, allocator_seed=0).given == ("--stages", "--seed")


def test_a_pipeline_is_explained_with_its_time_line_and_what_was_measured(cli, made, place):
    found, unit_s = made[1], made[1].predicted.step_s / 10
    tasks = [
        MeasuredTask(found.devices[stage.devices[0]], at, m, step_pass, unit_s * start_s, unit_s * (start_s + 1), unit_s / 2)
        for m in range(4)
        for at, stage in enumerate(found.stages)
        for step_pass, start_s in (("forward", m + at), ("backward", 4.0 + m + 1 - at))
    ]
    Measured(found.digest, "pipeline", 8, found.devices, 20, 6.0, tasks=tuple(tasks)).save(place / "measured.json")
    said = cli("explain", place / "plan.json", "--html", place / "page.html")
    assert (said.code, said.err) == (0, "")
    assert " is the bottleneck: it computes for " in said.out and f"ideal {ideal_bubble(2, 4):.0%}\n" in said.out
    assert re.search(r"^equal partition into 2 stages +\d", said.out, re.MULTILINE)
    for title in ("Predicted time line", "Measured time line"):
        block = said.out.partition(f"{title}\n=")[2].partition("\n\n")[2].partition("\n\n")[0].splitlines()
        assert len(block) == 1 + len(found.used) and {len(row) for row in block} == {100}
        assert "stage 0  f0" in block[1] and "b0=" in block[1]
    page = (place / "page.html").read_text()
    assert page.count("<svg") == 2 and ">Measured time line</h2>" in page


def test_sizes_are_those_of_the_stage_a_layer_is_in(cli, made, place):
    said = cli("explain", place / "plan.json")
    table = said.out.partition("\nSizes\n")[2].partition("\nPredicted step\n")[0]
    for at, stage in enumerate(made[1].stages):
        for entry in stage.layouts:
            cells = re.search(rf"^{at} +{re.escape(entry.name)} +{entry.layout} +(.*)$", table, re.MULTILINE)[1].split()
            assert [cell != "-" for cell in cells] == [device in stage.devices for device in range(3)]


@pytest.mark.slow
def test_what_if_plans_a_pipeline_anew_and_tells_what_the_plan_as_it_is_would_take(cli, made, place):
    options = ["--scale", "worker:2=4", "--bandwidth", "x2", "--add-like", "worker:0", "--batch-size", "16"]
    said = cli("explain", place / "plan.json", *options)
    assert said.code == 0, said.err
    assert re.search(r"a step would take \d\.\d\d times as long: .* -> .*; with the plan as it is, \d", said.out)
    assert re.search(r"^stages +2 +\d$", said.out, re.MULTILINE) and re.search(r"^microbatches +4 +\d+$", said.out, re.MULTILINE)
    assert "\nWhat if: predicted time line\n" in said.out and re.search(r"^then stages? .*bottleneck", said.out, re.MULTILINE)


@pytest.mark.slow
def test_what_if_keeps_the_schedule_and_recomputation_of_the_plan(cli, made, place):
    filled = plan(made[0], strategy="pipeline", pipeline=PipelineOptions(microbatches=4, stages=2, schedule="fill_drain", recompute=True))
    filled.save(place / "plan.json")
    said = cli("explain", place / "plan.json", "--bandwidth", "x1.001")
    again = plan(made[0], strategy="pipeline", pipeline=PipelineOptions(schedule="fill_drain", recompute=True))
    assert re.search(rf"^microbatches +4 +{again.microbatches}$", said.out, re.MULTILINE)


def test_a_plan_without_its_profile_is_told_without_a_time_line(cli, place):
    (place / "profile.json").unlink()
    said = cli("explain", place / "plan.json")
    assert said.code == 0 and "\nStages\n" in said.out and "Predicted time line" not in said.out and "Bottleneck" in said.out


def test_a_typed_pipeline_is_shown_as_one(place):
    profile = Profile.load(place / "profile.json")
    typed = Plan.pipeline(profile.graph, ["stem", "pool"], [[0], [1]], [[1], [1]], profile.cluster, 8, microbatches=2)
    text = plan_report(typed)
    assert ["0", "worker:0"] in [line.split()[:2] for line in text.splitlines()]
    assert text.endswith("Nothing is predicted: the plan is manual.")
    assert json.loads((place / "plan.json").read_text())["strategy"] == "pipeline"
