"""Benchmarks: listed and run in a source checkout; hidden, and refused in one sentence, where they are not."""

import pytest

from hetero_mtf.commands import bench


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    folder = tmp_path / "tools" / "bench"
    folder.mkdir(parents=True)
    for name in ("speed", "memory"):
        (folder / f"{name}.py").write_text(f"import sys\nif __name__ == '__main__':\n    print('{name} with', *sys.argv[1:])\n")
    (folder / "shared.py").write_text("VALUE = 1\n")
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def no_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    return tmp_path


def test_without_a_name_the_benchmarks_are_listed(cli, checkout):
    said = cli("bench")
    assert (said.code, said.out) == (0, "memory\nspeed\n")


def test_a_benchmark_is_run_with_its_arguments(cli, checkout, monkeypatch):
    monkeypatch.setattr("sys.argv", ["hetero-mtf"])
    monkeypatch.setattr("sys.path", [])
    assert cli("bench", "speed", "--rounds", "3").out == "speed with --rounds 3\n"


def test_a_misspelt_benchmark_is_answered_with_the_one_that_may_be_meant(cli, checkout):
    sentence = cli("bench", "sped").sentence
    assert "no benchmark 'sped'" in sentence and "did you mean speed?" in sentence
    assert "use one of memory, speed" in cli("bench", "xyz").sentence


def test_help_lists_the_benchmarks_only_where_there_are_any(cli, checkout, monkeypatch, tmp_path):
    assert "\n  bench " in cli("--help").out
    monkeypatch.setattr(bench, "ROOT", tmp_path / "installed")
    assert "\n  bench" not in cli("--help").out


@pytest.mark.parametrize("arguments", [[], ["speed"]])
def test_without_a_checkout_one_sentence_says_where_the_benchmarks_are(cli, no_checkout, arguments):
    sentence = cli("bench", *arguments).sentence
    assert "not installed" in sentence and "from a source checkout" in sentence
