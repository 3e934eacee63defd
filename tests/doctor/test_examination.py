"""The doctor's findings: their forms, a split network against Keras, and the whole command on two processors of one CPU."""

from __future__ import annotations

import getpass
import json
import pathlib
import socket
from types import SimpleNamespace
from typing import Any

import pytest

import hetero_mtf as hm
from hetero_mtf.commands.main import run
from hetero_mtf.doctor import trials
from hetero_mtf.doctor.examine import examine
from hetero_mtf.doctor.findings import DOUBT, FAULT, GOOD, LEFT_OUT, Chapter, Examination, Finding
from hetero_mtf.doctor.machine import gpus_chapter, kernel_findings, machine_chapter, versions_chapter
from hetero_mtf.doctor.network import exact_network
from hetero_mtf.errors import ClusterError
from hetero_mtf.report.section import sections_text
from hetero_mtf.report.table import Table

PAIR = ["cpu:0", "cpu:0"]


def test_kernels_are_named_on_cpus_where_tensorflow_leaves_some_out() -> None:
    old = {"sse4_1", "avx2", "fma"}
    (used,) = kernel_findings(old, {})
    assert used.state == GOOD and "in scripts set TF_ENABLE_ONEDNN_OPTS=1" in used.text
    (refused,) = kernel_findings(old, {"TF_ENABLE_ONEDNN_OPTS": "0"})
    assert refused.state == DOUBT and "as TF_ENABLE_ONEDNN_OPTS=0" in refused.text
    assert kernel_findings({*old, "avx512_vnni"}, {}) == [] == kernel_findings({"asimd"}, {})


def test_findings_have_a_state_and_a_remedy_in_the_terminal_and_in_json() -> None:
    chapters = (
        Chapter("One", (Finding("a", GOOD, "fine", figures={"x": 1.0}), Finding("b", FAULT, "broken", "replace it")), None),
        Chapter("Two", (), Table(("device", "speed"), (("gpu:0", "1.00"),))),
    )
    found = Examination(chapters, ("it pays",), 12.3)
    text = sections_text(found.sections())
    assert text.startswith("Verdict\n=======\nit pays") and "fault: b: broken; replace it" in text and "ok: a: fine" in text
    document = found.to_json()
    assert found.faults == 1 and document["chapters"][0]["findings"][0]["figures"] == {"x": 1.0}
    assert document["chapters"][1]["table"] == [{"device": "gpu:0", "speed": "1.00"}] and json.dumps(document)


def test_versions_and_gpus_of_this_machine_are_named() -> None:
    versions = versions_chapter()
    assert versions.findings[0].state in (GOOD, DOUBT) and "TensorFlow" in versions.findings[0].text
    assert {"python", "numpy"} <= set(versions.findings[0].figures)
    assert gpus_chapter().findings


def test_one_device_is_said_to_be_too_few() -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        chapter = machine_chapter(cluster.record, cluster.method, cluster.open_ports)
    assert [finding.state for finding in chapter.findings] == [GOOD, DOUBT] and "nothing can be split" in chapter.findings[1].text


def test_limits_and_ports_of_emulated_devices_are_named() -> None:
    with hm.Cluster.local(PAIR) as cluster:
        exact = machine_chapter(cluster.record, "cgroup", ())
        coarse = machine_chapter(cluster.record, "duty_cycle", (1234,))
    assert [finding.state for finding in exact.findings] == [GOOD] * 4
    assert [finding.state for finding in coarse.findings] == [GOOD, GOOD, DOUBT, DOUBT] and "nft" in coarse.findings[3].remedy


def test_a_split_network_gives_the_numbers_of_keras() -> None:
    with hm.Cluster.local(PAIR) as cluster:
        chapter = trials.exactness_chapter(cluster, [(0, 1)])
    assert [finding.state for finding in chapter.findings] == [GOOD, GOOD]
    assert 0 <= chapter.findings[0].figures["difference"] < 1e-8


def test_other_numbers_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "split_difference", lambda cluster, pair, dtype: 1e-3)
    with hm.Cluster.local(PAIR) as cluster:
        chapter = trials.exactness_chapter(cluster, [(0, 1)])
    assert [finding.state for finding in chapter.findings] == [FAULT, FAULT] and "report it" in chapter.findings[0].remedy


def _said(**seconds: float) -> tuple[str, ...]:
    cluster = SimpleNamespace(devices=[SimpleNamespace(name="gpu:0"), SimpleNamespace(name="gpu:1")])
    tried = {"planned": SimpleNamespace(strategy="batch"), "filters": SimpleNamespace(strategy="filters")}
    return trials.verdict(cluster, {"gpu:0 alone": 1.0, "gpu:1 alone": 2.0, **seconds}, tried)  # type: ignore[arg-type]


def test_the_verdict_follows_the_fastest_of_the_measured_plans() -> None:
    assert _said(planned=0.5, filters=0.9)[0] == "a second device pays: batch is 2.00 times as fast as gpu:0 alone, 1.33 of the ideal"
    assert _said(planned=0.95, filters=1.2)[0].startswith("a second device does not pay for this network: at best batch is 1.05 times")
    assert not any("the planner chose" in sentence for sentence in _said(planned=0.5, filters=0.9))


@pytest.mark.parametrize("seconds", [{"planned": 0.8, "filters": 0.5}, {"planned": 1.6, "filters": 1.8}])
def test_a_choice_of_the_planner_that_is_slower_is_said(seconds: dict[str, float]) -> None:
    assert "the planner chose batch, which takes 1.60 times as long" in _said(**seconds)[1]


def test_plans_beside_the_planners_are_other_ones() -> None:
    with hm.Cluster.local(PAIR) as cluster:
        profile = trials.measured_profile(cluster, exact_network("float32"), 12, 2.0)
    tried = trials.tried_plans(profile)
    assert next(iter(tried)) == trials.PLANNED and set(tried) <= {trials.PLANNED, *trials.BESIDE}
    assert len({plan.built_from for plan in tried.values()}) == len(tried) >= 2


def test_a_cluster_that_cannot_be_opened_is_a_finding() -> None:
    def refused() -> Any:
        raise ClusterError("there is no such device", "name another")

    found = examine(refused)
    assert found.faults >= 1 and found.chapters[-1].findings[0].text == "there is no such device"
    assert "does not work here as it should" in found.verdict[0]


@pytest.mark.slow
def test_the_command_writes_its_findings_without_anything_personal(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--cluster", "emulate:1.0,0.5", "--json", "found.json", "--html", "found.html"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Verdict") and "pay" in out and "numbers in float64" in out
    text = (tmp_path / "found.json").read_text()
    for personal in (socket.gethostname(), str(tmp_path), str(pathlib.Path.home()), str(pathlib.Path(hm.__file__).parent)):
        assert personal not in text
    assert getpass.getuser() == "root" or getpass.getuser() not in text
    titles = [chapter["title"] for chapter in json.loads(text)["chapters"]]
    assert titles == ["Versions", "GPUs", "Devices", "Measured", "Exactness", "Speed", "Memory"]
    states = [finding["state"] for chapter in json.loads(text)["chapters"] for finding in chapter["findings"]]
    assert FAULT not in states and LEFT_OUT in states
