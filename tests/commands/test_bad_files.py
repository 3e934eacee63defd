"""Profiles and plans that are damaged: one sentence that names every fault, exit code 1, and nothing overwritten."""

import json
import os

import pytest

from tests.planning.networks import pair_net, profile_of

MEASURED = profile_of(pair_net(), [1e6, 1e6])
DEEP = 50_000


def _changed(text, **changes):
    return json.dumps({**json.loads(text), **changes}).encode()


def _nested(text, **changes):
    """The document with a list in lists in place of its batch size."""
    return _changed(text, batch_size="HERE").replace(b'"HERE"', b"[" * DEEP + b"]" * DEEP)


# name -> (what a good file's text is turned into, what must be said of it)
DAMAGE = {
    "truncated": (lambda text: text[: len(text) // 2].encode(), ["is not a complete JSON file"]),
    "empty": (lambda text: b"", ["is not a complete JSON file"]),
    "binary": (lambda text: bytes(range(256)) * 40, ["is not a complete JSON file"]),
    "10 MB of junk": (lambda text: b"junk " * 2_000_000, ["is not a complete JSON file"]),
    "10 MB of lists": (lambda text: b"[" + b"[11111111, 22222222, 33333333, 44444444],\n" * 240_000 + b"1]", ["is not a "]),
    "10 MB of entries": (
        lambda text: _changed(text, **{f"junk{at}": "x" * 80 for at in range(100_000)}),
        ["has 100000 faults: junk0: is not known", "and 99000 more"],
    ),
    "deep nesting": (_nested, ["is not a complete JSON file (maximum recursion depth exceeded"]),
    "a number of 5000 digits": (
        lambda text: _changed(text, batch_size=0).replace(b": 0,", b": " + b"9" * 5000 + b",", 1),
        ["is not a complete"],
    ),
    "a list": (lambda text: b"[]", ["is not a "]),
    "another kind": (lambda text: _changed(text, kind="recipe"), ["is not a "]),
    "an unknown version": (lambda text: _changed(text, version=99), ["has version 99 and this program reads "]),
    "a key twice": (lambda text: text.replace("{", '{"batch_size": 1,', 1).encode(), ["names 'batch_size' twice"]),
    "not a number": (lambda text: _changed(text, batch_size=float("nan")), ["batch_size: is nan, must be a whole number"]),
    "below zero": (lambda text: _changed(text, batch_size=-3), ["batch_size: is -3, must be at least 1"]),
    "far too large": (lambda text: _changed(text, batch_size=10**400), ["batch_size: is 1000", "must be a whole number"]),
    "wrong types": (
        lambda text: _changed(text, batch_size="eight", devices={}, cluster=3),
        ["batch_size: is 'eight', must be a whole number"],
    ),
}

COMMANDS = {
    "plan": lambda path, subject, output: ["plan", path, "-o", output],
    "explain": lambda path, subject, output: ["explain", path, "--html", output],
    "train": lambda path, subject, output: ["train", *subject, "--plan", path, "--output", output.with_suffix(".keras")],
}


@pytest.fixture
def given(profile, plan, tmp_path):
    """Returns, for a command, a good file's text, a path to damage, and a file that is there already."""

    def make(command):
        kept = tmp_path / ("kept.keras" if command == "train" else "kept.json")
        kept.write_bytes(b"kept as it is")
        return (profile if command == "plan" else plan).read_text(), tmp_path / "damaged.json", kept

    return make


def _refused(said, kept, folder, *others):
    sentence = said.sentence
    assert said.out == "" and "; " in sentence and len(sentence) < 200_000
    assert kept.read_bytes() == b"kept as it is"
    assert sorted(entry.name for entry in folder.iterdir()) == sorted([kept.name, *others])
    return sentence


@pytest.mark.fast(
    'explain-a list',
    'explain-an unknown version',
    'explain-deep nesting',
    'explain-empty',
    'explain-far too large',
    'plan-a key twice',
    'plan-not a number',
    'plan-wrong types',
)
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_file_is_one_sentence_and_nothing_is_overwritten(cli, subject, given, tmp_path, command, damage):
    text, path, kept = given(command)
    spoil, words = DAMAGE[damage]
    path.write_bytes(spoil(text))
    before = path.read_bytes()
    sentence = _refused(cli(*COMMANDS[command](path, subject, kept)), kept, tmp_path, path.name)
    assert all(word in sentence for word in words), sentence[:500]
    assert path.read_bytes() == before


@pytest.mark.fast("explain", "plan")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_is_no_file_is_one_sentence(cli, subject, given, tmp_path, command):
    _, path, kept = given(command)
    loop, folder, gone, locked = (tmp_path / name for name in ("loop.json", "folder.json", "gone.json", "locked.json"))
    loop.symlink_to(loop)
    folder.mkdir()
    locked.write_text("{}")
    locked.chmod(0)
    reasons = {loop: "Too many levels of symbolic links", folder: "Is a directory", gone: "No such file or directory"}
    if os.geteuid() != 0:
        reasons[locked] = "Permission denied"
    for place, reason in reasons.items():
        sentence = _refused(cli(*COMMANDS[command](place, subject, kept)), kept, tmp_path, loop.name, folder.name, locked.name)
        assert sentence == f"cannot read {place}: {reason}; check the path"


def test_every_fault_of_a_profile_is_named_at_once_whatever_part_it_is_in(cli, given, tmp_path):
    _, path, kept = given("plan")
    document = json.loads(json.dumps(MEASURED.to_json()))
    document["curves"][0]["seconds"][0] = -1.0
    document["links"][0]["latency_s"] = float("inf")
    document["memory"][0]["free_bytes"] = -5
    document["cluster"]["devices"][1]["share"] = float("nan")
    document["cluster"]["devices"][0]["memory_bytes"] = "much"
    document["graph"]["layers"][1]["flops"] = float("nan")
    document["graph"]["layers"][2]["output_shape"][0] = -4
    path.write_text(json.dumps(document))
    sentence = _refused(cli("plan", path, "-o", kept), kept, tmp_path, path.name)
    for fault in (
        "curves[0].seconds: hold -1",
        "links[0].latency_s: is inf",
        "memory[0].free_bytes: is -5",
        "devices[1].share is nan",
        "devices[0].memory_bytes is 'much'",
        "layers[1].flops is nan",
        "layers[2].output_shape[0] is -4",
    ):
        assert fault in sentence


def test_a_device_that_is_missing_is_named_in_profile_and_plan(cli, subject, given, tmp_path):
    _, path, kept = given("plan")
    document = json.loads(json.dumps(MEASURED.to_json()))
    del document["cluster"]["devices"][1]
    path.write_text(json.dumps(document))
    assert "links[0].destination: is 1, there are 1 devices" in _refused(cli("plan", path, "-o", kept), kept, tmp_path, path.name)
    text, path, kept = given("explain")
    document = json.loads(text)
    del document["devices"][1]
    path.write_text(json.dumps(document))
    assert "stages[0].devices: names device 1, the plan has 1 devices" in cli("explain", path).sentence
    assert "stages[0].devices: names device 1, the plan has 1 devices" in cli("train", *subject, "--plan", path).sentence


@pytest.mark.parametrize("command", ["calibrate", "plan"])
def test_a_target_that_cannot_be_written_is_refused_before_anything_is_done(cli, model, profile, tmp_path, command):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    source = [*model, "--cluster", "local:cpu:0"] if command == "calibrate" else [profile]
    for target in (tmp_path, tmp_path / "loop", tmp_path / "gone" / "made.json"):
        said = cli(command, *source, "-o", target)
        assert said.sentence.startswith(f"cannot write {target}: ") and said.out == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["loop"]
