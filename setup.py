"""Gives setuptools what settings.ini says; pyproject.toml holds only the build system."""

from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

NOTEBOOKS = {"dmscdc.jobs": "notebooks/jobs", "dmscdc.explore": "notebooks/explore"}  # they ship inside the wheel,
SUITE = {"dmscdc.contracts": "tests/contracts"}  # and so does what every table format must pass,
INFRA = {"dmscdc.infra": "infra"}  # and the files of a deployment
here = Path(__file__).parent
ini = ConfigParser(delimiters=["="], interpolation=None)
ini.read(here / "settings.ini", encoding="utf-8")
cfg = ini["DEFAULT"]

extras = {
    name: cfg[f"{name}_requirements"].split()
    for name in ("local", "runs", "lab", "aws", "stream", "lineage", "delta", "iceberg", "hudi", "source", "dev")
}
extras["notebooks"] = extras["runs"] + extras["lab"]
extras["all"] = (
    extras["local"]
    + extras["notebooks"]
    + extras["aws"]
    + extras["stream"]
    + extras["lineage"]
    + extras["delta"]
    + extras["iceberg"]
    + extras["hudi"]
    + extras["source"]
)

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=(here / "README.md").read_text(encoding="utf-8") if (here / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    author=cfg["author"],
    license="Apache-2.0",
    keywords=cfg["keywords"],
    python_requires=f">={cfg['min_python']}",
    packages=find_packages(include=["dmscdc", "dmscdc.*"]) + [*NOTEBOOKS, *SUITE, *INFRA],
    package_dir={**NOTEBOOKS, **SUITE, **INFRA},
    package_data={
        "dmscdc": ["py.typed", "jars.txt", "constraints.txt", "pages/*"],
        **{name: ["*.ipynb"] for name in NOTEBOOKS},
        **{name: ["*.py"] for name in SUITE},
        "dmscdc.infra": ["*.yaml", "*.md", "*.py", "elsewhere/*"],
    },
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    entry_points={"console_scripts": cfg["console_scripts"].split(), "nbdev": ["dmscdc=dmscdc._modidx:d"]},
    zip_safe=False,
)
