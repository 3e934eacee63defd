"""Files of options: every option in a file is what it is on the command line, and every fault is named at once."""

import click
import pytest

from hetero_mtf.commands.main import program
from hetero_mtf.commands.options.config_file import options_of, read_config
from hetero_mtf.commands.options.config_record import save_config, used_options
from hetero_mtf.errors import ConfigError

TRAIN = program.get_command(click.Context(program), "train")
TYPED = {  # an option -> what is typed behind it
    "model": "net.py:net",
    "model-arg": "kind='small'",
    "precision": "mixed_bfloat16",
    "data": "digits",
    "cluster": "emulate:1.0,0.5",
    "worker-timeout": "2.5",
    "wait": "90",
    "spare": "1",
    "plan": "p.json",
    "profile": "profile.json",
    "strategy": "filters",
    "measure": "never",
    "collective": "ring",
    "epochs": "7",
    "batch-size": "8",
    "optimizer": "adam",
    "momentum": "0.9",
    "learning-rate": "1e-3",
    "decay": "cosine",
    "loss": "head=huber",
    "metrics": "head=auc",
    "budget": "inf",
    "refine-time": "3",
    "save": "s.npz",
    "save-every": "4",
    "validation-split": "0.25",
    "early-stopping": "val_loss",
    "patience": "3",
    "best": "val_accuracy",
    "keep": "2",
    "log-dir": "logs",
    "resume": "r.npz",
    "output": "m.keras",
    "seed": "4294967295",
    "measured": "measured.json",
    "label": "group",
    "cache": "kept",
    "workers": "3",
    "shape": "48,56,48",
    "spacing": "1,1,1.5",
    "orientation": "LPS",
    "interpolation": "2",
    "normalisation": "minmax",
    "mask": "otsu",
    "volume": "0",
    "nan-share": "0.1",
    "shift": "2",
    "noise": "0.05",
    "class": "AD",
    "class-weight": "AD=2.5",
    "split": "split.json",
    "test-fraction": "0.3",
    "validation-fraction": "0.1",
    "folds": "5",
    "fold": "2",
    "site": "centre",
    "ids": "exact",
    "split-seed": "9",
}
FLAGS = {name for name, option in options_of(TRAIN).items() if option.is_flag}


def _context(*arguments):
    """Return the context of train with its parameters read; nothing is run."""
    return TRAIN.make_context("train", [str(argument) for argument in arguments])


def _values(context):
    return {**context.params, **context.meta, "config": None}


def test_every_option_is_tried_here():
    assert {*TYPED, *FLAGS} == set(options_of(TRAIN))


@pytest.mark.parametrize("suffix", ["yaml", "toml"])
@pytest.mark.parametrize("name", [name for name in TYPED if name not in ("model", "data")])
def test_an_option_in_a_file_is_what_it_is_on_the_command_line(tmp_path, name, suffix):
    needed = ["--model", "m:f", "--data", "digits"]
    colon, quoted = (":", TYPED[name]) if suffix == "yaml" else (" =", repr(TYPED[name]))
    if suffix == "toml" and "'" in TYPED[name]:
        quoted = f'"{TYPED[name]}"'
    path = tmp_path / f"c.{suffix}"
    for key in (name, name.replace("-", "_")):
        path.write_text(f"{key}{colon} {quoted}\n")
        assert _values(_context(*needed, "--config", path)) == _values(_context(*needed, f"--{name}", TYPED[name]))


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_a_flag_in_a_file_is_true_or_false(tmp_path, name):
    option, needed = options_of(TRAIN)[name], ["--model", "m:f", "--data", "digits"]
    for value, typed in (("true", [f"--{name}"]), ("false", option.secondary_opts[:1])):
        (tmp_path / "c.yaml").write_text(f"{name}: {value}\n")
        read, given = (_values(_context(*needed, *more)) for more in (["--config", tmp_path / "c.yaml"], typed))
        assert read == given
    for value in ("yes please", "1", "[true]"):
        (tmp_path / "c.yaml").write_text(f"{name}: {value}\n")
        with pytest.raises(ConfigError, match=f"{name}: is .*; write true or false"):
            _context(*needed, "--config", tmp_path / "c.yaml")


def test_all_options_as_used_are_what_they_were_when_they_are_read_again(tmp_path):
    typed = [word for name, text in TYPED.items() for word in (f"--{name}", text)]
    typed += ["--metrics", "accuracy,mae", "--model-arg", "size=(1, 2)", "--class-weight", "balanced"]
    context = _context(*typed, *(f"--{name}" for name in FLAGS))
    save_config(tmp_path / "c.yaml", used_options(context, {}))
    again = _context("--config", tmp_path / "c.yaml")
    separate = {"metrics": ((("head", "auc"),), (("", "accuracy"),), (("", "mae"),))}
    assert _values(again) == {**_values(context), **separate}
    save_config(tmp_path / "d.yaml", used_options(again, {}))
    assert (tmp_path / "c.yaml").read_bytes() == (tmp_path / "d.yaml").read_bytes()


def test_the_command_line_wins_over_the_file(tmp_path):
    (tmp_path / "c.yaml").write_text("model: m:f\ndata: digits\nepochs: 7\nmetrics: [auc, mae]\nrefine: false\nseed: 3\n")
    context = _context("--config", tmp_path / "c.yaml", "--epochs", "2", "--metrics", "mse", "--refine")
    assert (context.params["epochs"], context.params["metrics"], context.params["refine"]) == (2, ((("", "mse"),),), True)
    assert (context.params["seed"], context.params["model"]) == (3, "m:f")


@pytest.mark.parametrize(
    "text, value",
    [
        ("spacing: [1, 1, 1.5]", (1.0, 1.0, 1.5)),
        ("spacing: 2", (2.0, 2.0, 2.0)),
        ("learning-rate: 1e-3", 0.001),
        ("budget: .inf", float("inf")),
    ],
)
def test_numbers_are_written_as_yaml_writes_them(tmp_path, text, value):
    (tmp_path / "c.yaml").write_text(f"model: m:f\ndata: digits\nplan:\n{text}\n")
    context = _context("--config", tmp_path / "c.yaml")
    assert context.params[text.partition(":")[0].replace("-", "_")] == value and context.params["plan"] is None


def test_unknown_keys_and_wrong_types_are_all_reported_at_once(cli, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "epoch: 5\nbatch-size: 2.5\nbatch_size: 3\nlearning_rate: true\nno-refine: true\nmetrics: [auc, [mae]]\nsave: {a: b}\n"
        "3: 4\nconfig: other.yaml\nsave-every: 2026-01-01\noptimizer: adm\nqqqq: 1\nmodel-arg: [size]\n"
    )
    said = cli("train", "--config", path)
    first, *lines = said.err.splitlines()
    assert said.code == 1 and str(path) in first and f"{len(lines)} faults; correct these lines" in first
    text = "\n".join(lines)
    for fault in (
        "'epoch' is no option of train; did you mean epochs",
        "batch-size: '2.5' is not a valid integer",
        "learning_rate: is 'true'; write a text or a number",
        "'no-refine' is no option of train; did you mean refine",
        "metrics: is a list of 1; write a text",
        "save: is an object of 1 entries",
        "3 is no option of train",
        "'config' is no option of train",
        "save-every: is datetime.date(2026, 1, 1); write",
        "optimizer: 'adm' is not one of 'sgd'",
        "'qqqq' is no option of train; leave it out",
        "model-arg: 'size' is not of the form name=value",
    ):
        assert fault in text, fault
    assert len(lines) == 12


def test_a_name_in_two_spellings_or_twice_is_refused(cli, tmp_path):
    for text, said in (
        ("save-every: 2\nsave_every: 3\n", "save_every is there twice"),
        ("seed: 2\nseed: 3\n", "the key 'seed' is there twice"),
    ):
        (tmp_path / "c.yaml").write_text(text)
        assert said in cli("train", "--config", tmp_path / "c.yaml").err
    (tmp_path / "c.toml").write_text("seed = 2\nseed = 3\n")
    assert "is no complete TOML file" in cli("train", "--config", tmp_path / "c.toml").sentence


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi"))


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("c.yaml", "a: [1", "is no complete YAML file"),
        ("c.yaml", "- 1\n- 2\n", "holds a list of 2 and no options"),
        ("c.yaml", "just text", "holds 'just text' and no options"),
        ("c.yaml", "\x00\x01", "is no complete YAML file"),
        ("c.yaml", b"seed: \xff\xfe", "is no complete YAML file"),
        ("c.yaml", "seed: !!python/object/apply:os.system ['touch here']", "is no complete YAML file"),
        ("c.yaml", "seed: " + "9" * 5000, "is no complete YAML file"),
        ("c.yaml", "[" * 3000, "is no complete YAML file"),
        ("c.yaml", "{[1]: 2}", "is no complete YAML file"),
        ("c.yaml", BOMB, "has 9 faults"),
        ("c.yaml", "x: " + "a" * 2**20, "has more than 1048576 bytes"),
        ("c.yaml", '{"kind": "plan"}', "'kind' is no option of train"),
        ("c.toml", "seed = ", "is no complete TOML file"),
        ("c.toml", "[train]\nseed = 3\n", "'train' is no option of train"),
        ("c.json", "{}", "give a file whose name ends in .yaml, .yml, .toml"),
    ],
)
def test_damaged_and_foreign_files_are_refused_and_nothing_in_them_is_run(cli, tmp_path, monkeypatch, name, content, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused = cli("train", "--config", name)
    assert refused.code == 1 and said in refused.err and "; " in refused.err and len(refused.err) < 4000, refused
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_missing_file_and_a_folder_are_refused(cli, tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    assert "No such file or directory; check the path" in cli("train", "--config", tmp_path / "none.yaml").sentence
    assert "Is a directory; check the path" in cli("train", "--config", tmp_path / "folder.yaml").sentence


def test_an_empty_file_leaves_everything_open(cli, tmp_path):
    (tmp_path / "c.yaml").write_text("# nothing yet\n")
    assert cli("train", "--config", tmp_path / "c.yaml").code == 2  # --model is missing


def test_earlier_names_are_taken(tmp_path):
    (tmp_path / "c.yaml").write_text("model: m:f\ndata: digits\ndtype: float64\n")
    context = _context("--config", tmp_path / "c.yaml")
    assert context.params["precision"] == "float64"
    with pytest.raises(ConfigError, match="dtype: 'half' is not one of"):
        (tmp_path / "c.yaml").write_text("dtype: half\n")
        read_config(tmp_path / "c.yaml", context)
