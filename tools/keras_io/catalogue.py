"""All recipes, by name."""

from __future__ import annotations

import importlib
import pkgutil

from tools.keras_io import recipes
from tools.keras_io.recipe import Recipe


def catalogue() -> dict[str, Recipe]:
    """Return name -> recipe, of all modules of recipes, in their order."""
    modules = [importlib.import_module(f"{recipes.__name__}.{each.name}") for each in pkgutil.iter_modules(recipes.__path__)]
    listed = [recipe for module in modules for recipe in module.RECIPES]
    named = {recipe.name: recipe for recipe in listed}
    if len(named) != len(listed):
        raise ValueError(f"two recipes have one name, of {sorted(recipe.name for recipe in listed)}; rename one")
    return named
