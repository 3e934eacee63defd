"""The page of the command line has every command and option as the commands have them."""

from __future__ import annotations

import click
import pytest

from hetero_mtf.commands.main import NAMES, program
from tools.command_line_page import MARK, PAGE, page


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "write it again with: python -m tools.command_line_page"


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_a_command_is_on_the_page(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## hetero-mtf {name}\n")[2].partition("\n## ")[0]
    shown = [option for option in command.params if isinstance(option, click.Option) and not (option.hidden or command.hidden)]
    assert [option.opts[-1] for option in shown if option.opts[-1] not in section] == []
    assert bool(section) != command.hidden


def test_what_is_written_by_hand_is_kept_and_the_rest_replaced() -> None:
    text = page(f"# By hand\n\n{MARK}\nold")
    assert text.startswith(f"# By hand\n\n{MARK}\n") and "old" not in text.splitlines()
    assert "## hetero-mtf train" in text


def test_a_page_without_the_line_where_options_begin_is_refused() -> None:
    with pytest.raises(ValueError, match="line"):
        page("# By hand")
