"""The list of packages: those of hetero_mtf/, and models/ as hetero_mtf.models; everything else is in setup.cfg."""

import setuptools

setuptools.setup(
    packages=[*setuptools.find_packages(include=["hetero_mtf", "hetero_mtf.*"]), "hetero_mtf.models"],
    package_dir={"hetero_mtf.models": "models"},
)
