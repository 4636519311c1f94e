"""What each cause, fate, verdict, finding, coverage problem and way of naming a task means, and what to do about it.

The texts live once, as package data (`*.toml` beside this file): `-x` prints them, the page shows them, the docs are
made from them. Their order is the order of the files: for causes, fates and verdicts the order in which the rules are
tried. This room knows words and nothing else.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The texts of one key, each plain text on one line without markup.

    `title`: a few words. `means`: what the key says. `shown_by`: what in the journal or the run log shows it.
    `fix`: what to do about it.
    """

    key: str
    title: str
    means: str
    shown_by: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """All texts by the kebab-case keys of the document: `cause`, `fate`, `verdict`, `problems[].code`, `task.how`.

    `findings` are what a report says besides kills.
    """

    causes: Mapping[str, Text]
    fates: Mapping[str, Text]
    verdicts: Mapping[str, Text]
    findings: Mapping[str, Text]
    coverage: Mapping[str, Text]
    naming: Mapping[str, Text]


@cache
def load() -> Texts:
    """Read the texts, once per process."""
    return Texts(
        causes=_read("causes"),
        fates=_read("fates"),
        verdicts=_read("verdicts"),
        findings=_read("findings"),
        coverage=_read("coverage"),
        naming=_read("naming"),
    )


def configuration() -> Mapping[str, str]:
    """Read what the keys of a configuration file say, by their paths; keys that are options say it in their help."""
    source = resources.files(__name__).joinpath("configuration.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(source))


def _read(name: str) -> Mapping[str, Text]:
    source = resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            key: Text(key=key, **{field: " ".join(text.split()) for field, text in fields.items()})
            for key, fields in tomllib.loads(source).items()
        }
    )
