"""The option --config: all options of a command in a YAML or TOML file, checked at once; those on the command line win."""

from __future__ import annotations

import difflib
import os
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from hetero_mtf.commands.options.model import RenamedOption
from hetero_mtf.commands.options.shared import Command
from hetero_mtf.errors import ConfigError
from hetero_mtf.file_kind import file_kind, in_place_of
from hetero_mtf.units import value_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUFFIXES = (".yaml", ".yml", ".toml")
HEADER = "# hetero-mtf train: the options of a training as they were used; --config with this file repeats it\n"
_MOST_BYTES = 2**20
_HELP = "A .yaml or .toml file of options, named as here without dashes; those on the command line win."
_LEFT_OUT = frozenset({"help", "config"})


def config_option(command: Command) -> Command:
    """Add --config."""
    return click.option("--config", metavar="FILE", is_eager=True, callback=_take, help=_HELP)(command)


def _take(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Let the file's values take the place of the options' defaults."""
    if path is not None:
        context.default_map = {**(context.default_map or {}), **read_config(path, context)}
    return path


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a file may have, by their names in it.

    Parameters
    ----------
    command : the command.
    """
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    named = {_long_name(option): option for option in options}
    return {name: option for name, option in named.items() if name not in _LEFT_OUT}


def _long_name(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def read_config(path: str | os.PathLike[str], context: click.Context) -> dict[str, Any]:
    """Return the values in a file by the names of the command's parameters, as they would be typed.

    Parameters
    ----------
    path : path of the file; its suffix says what it is.
    context : of the command whose options it holds.

    Raises
    ------
    ConfigError
        With every unknown key and every value of a wrong type; or if the file cannot be read.
    """
    document, options = _document(pathlib.Path(path)), options_of(context.command)
    earlier = {option.earlier.lstrip("-"): option for option in options.values() if isinstance(option, RenamedOption)}
    values, faults = dict[str, Any](), list[str]()
    for key, value in document.items():
        name = key.replace("_", "-") if isinstance(key, str) else ""
        option = options.get(name) or earlier.get(name)
        if option is None:
            faults.append(f"{value_text(key)} is no option of {context.info_name}; {_near(name, options)}")
        elif str(option.name) in values:
            faults.append(f"{key} is there twice; give it once")
        elif value is not None:
            try:
                values[str(option.name)] = _typed(option, value, context)
            except click.BadParameter as fault:
                faults.append(f"{key}: {fault.message}")
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
        raise ConfigError("\n".join([f"the configuration {path} has {count}; correct these lines:", *faults]))
    return values


def _near(name: str, options: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.removeprefix("no-"), list(options), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else "leave it out"


def _typed(option: click.Option, value: Any, context: click.Context) -> Any:
    """Return a value as it would be typed, after it was checked; raise click.BadParameter with what is wrong."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.BadParameter(f"is {_shown(value)}; write true or false")
        return value
    if option.multiple:
        texts = [_text(entry) for entry in (value if isinstance(value, list) else [value])]
    elif isinstance(value, list) and value and getattr(option.type, "takes_list", False):
        texts = [",".join(_text(entry) for entry in value)]
    else:
        texts = [_text(value)]
    for text in texts:
        option.type.convert(text, option, context)
    return texts if option.multiple else texts[0]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise click.BadParameter(f"is {_shown(value)}; write a text or a number, a text that looks like something else in quotes")
    try:
        return str(value)
    except ValueError as fault:  # of more digits than Python writes
        raise click.BadParameter("is a number of too many digits; write a smaller one") from fault


def _shown(value: Any) -> str:
    """Return what a value is, none of which is written out where it holds others: these may be very many."""
    if isinstance(value, (list, tuple, set)):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return f"an object of {len(value)} entries"
    return value_text(str(value).lower() if isinstance(value, bool) else value)


def _document(path: pathlib.Path) -> Mapping[Any, Any]:
    """Return the top level of a file."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"--config is {path}", f"give a file whose name ends in {', '.join(SUFFIXES)}")
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as fault:
        raise ConfigError(f"cannot read the configuration {path}: {fault.strerror or fault}", "check the path") from fault
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} has more than {_MOST_BYTES} bytes, too many for a configuration", "check the path")
    toml = path.suffix.lower() == ".toml"
    try:
        text = content.decode("utf-8")
        document = _toml(text) if toml else _yaml(text)
    except (ValueError, RecursionError, TypeError) as fault:
        said = " ".join(str(fault).split())[:200]
        what = in_place_of(path, "a configuration") if file_kind(path) else f"{path} is no complete {'TOML' if toml else 'YAML'} file"
        raise ConfigError(f"{what} ({said})", "correct it") from fault
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ConfigError(f"{path} holds {_shown(document)} and no options", "write lines such as epochs: 5")
    return document


def _toml(text: str) -> Any:
    return tomllib.loads(text)


def _yaml(text: str) -> Any:
    """Return what a YAML text holds: plain values only, as by `yaml.safe_load`, and no key twice."""
    import yaml  # only a file of options needs it

    class OnceLoader(yaml.SafeLoader):
        pass

    def construct_mapping(loader: Any, node: Any) -> dict[Any, Any]:
        keys = [loader.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        repeated = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
        if repeated is not None:
            raise ValueError(f"the key {value_text(repeated)} is there twice")
        loader.flatten_mapping(node)
        return dict(loader.construct_pairs(node, deep=True))

    OnceLoader.add_constructor("tag:yaml.org,2002:map", construct_mapping)
    try:
        return yaml.load(text, OnceLoader)
    except yaml.YAMLError as fault:
        raise ValueError(str(fault)) from fault
