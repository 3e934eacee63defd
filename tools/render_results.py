"""Write the result tables of README.md and the pages below docs from the JSON files in docs/results.

    python -m tools.render_results [--check]

What stands between the marks of a page is replaced; everything else stays. With --check nothing is written, and the command fails
where a page is not up to date. `tools/results/pages.py` says what a mark may ask for.
"""

from __future__ import annotations

import pathlib

import click

from hetero_mtf.errors import HeteroError
from tools.results.pages import filled, load_all, pages_of

ROOT = pathlib.Path(__file__).resolve().parents[1]


def outdated(root: pathlib.Path) -> dict[pathlib.Path, str]:
    """Return page -> the text it is to have, of the pages of a clone that are not up to date.

    Parameters
    ----------
    root : folder of the clone.
    """
    results = load_all(root / "docs" / "results")
    texts = {page: (page.read_text(encoding="utf-8")) for page in pages_of(root)}
    return {page: fresh for page, text in texts.items() if (fresh := filled(text, results)) != text}


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Write nothing; fail where a page is not up to date.")
@click.option("--root", type=click.Path(path_type=pathlib.Path), default=ROOT, help="Folder of the clone.  [default: this one]")
def main(check: bool, root: pathlib.Path) -> None:
    """Write the pages, or check them."""
    try:
        pages = outdated(root)
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    for page, text in pages.items():
        if not check:
            page.write_text(text, encoding="utf-8")
        click.echo(f"{page.relative_to(root)} {'is not up to date' if check else 'written'}")
    if check and pages:
        raise click.ClickException("some pages differ from the results; run python -m tools.render_results")


if __name__ == "__main__":
    main()
