"""The lines that distribute the models of a script: after each compilation, and without moving a line."""

from __future__ import annotations

import pytest

from tools.keras_io.recipe import Recipe
from tools.keras_io.script import EditError, distributed_script, edited, with_distribute


def test_each_compiled_model_is_distributed_in_its_own_line() -> None:
    assert with_distribute("net.compile('sgd')\nnet.fit(x)") == "net.compile('sgd'); net = hm.distribute(net, hm_cluster)\nnet.fit(x)"


def test_a_statement_over_several_lines_is_followed_at_its_end() -> None:
    text = "model.compile(\n    'sgd',  # é\n)  # done\n"
    assert with_distribute(text) == "model.compile(\n    'sgd',  # é\n); model = hm.distribute(model, hm_cluster)  # done\n"


def test_a_model_from_outside_of_a_function_is_not_assigned_there() -> None:
    text = "def train():\n    model.compile('sgd')\n"
    assert with_distribute(text) == "def train():\n    model.compile('sgd'); hm.distribute(model, hm_cluster)\n"


@pytest.mark.parametrize(
    "text", ["p = re.compile('x')", "class M(K):\n    def f(self):\n        self.compile()\n        super().compile()"]
)
def test_what_compiles_no_model_of_its_own_stays(text: str) -> None:
    assert with_distribute(text) == text


def test_the_cluster_comes_first_and_no_line_moves() -> None:
    text = '"""Title."""\nfrom __future__ import annotations\n\nimport keras\nmodel.compile()\n'
    lines = distributed_script(text, Recipe("name", "path"), [1.0, 0.5]).split("\n")
    assert lines[3] == "import hetero_mtf as hm; hm_cluster = hm.Cluster.emulate([1.0, 0.5]); import keras"
    assert len(lines) == len(text.split("\n"))


@pytest.mark.parametrize("text", ["a = 1", "b = 1\nb = 1"])
def test_an_edit_that_does_not_occur_once_is_named(text: str) -> None:
    with pytest.raises(EditError, match="b = 1.*once"):
        edited(text, [("b = 1", "b = 2")])
