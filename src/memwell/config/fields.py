"""How a setting is declared, found by its name, checked and printed; `settings` declares them all.

The fields of a `Section` are settings (`setting`) or other sections (`section`).
A setting is named by its path: the field ``k`` of the section ``search`` is ``search.k``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from memwell.errors import ConfigError

Value = str | int | float | bool | tuple[str, ...]
T = TypeVar("T")

_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, its default, the reason for the default, and the valid values."""

    name: str
    path: tuple[str, ...]
    """The attributes that lead to the value: ``("search", "k")``."""
    default: Value
    reason: str
    limits: tuple[float, float] | None = None
    """The smallest and the largest valid number."""
    one_of: tuple[str, ...] = ()
    secret: bool = False
    """The value is never printed."""
    fallback_env: str = ""
    """An environment variable of another program, used if the setting has no value."""
    safe: bool = False
    """The file of a workspace may set it, although the folder may be a clone of a stranger's."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "MEMWELL_" + self.name.replace(".", "_").replace("-", "_").upper()

    def get(self, settings: object) -> Value:
        """Return the value that `settings` hold."""
        value: Any = settings
        for attribute in self.path:
            value = getattr(value, attribute)
        return value  # type: ignore[no-any-return]


class _Member:
    """A declared field of a section: a setting with its rules, or another section."""

    def __init__(self, default: Any, rules: Mapping[str, Any]) -> None:
        self.default = default
        self.rules = rules


def setting(default: T, reason: str, **rules: Any) -> T:
    """Declare a setting: its default, the reason for it, and other attributes of `Setting`."""
    member: Any = _Member(default, {"reason": reason, **rules})
    return member  # type: ignore[no-any-return]


def section(kind: type[T], *, name: str = "", safe: bool = False) -> T:
    """Declare a section within another one; `name` is for TOML, if a field cannot have it.

    All settings of a `safe` section are safe, unless one of them is declared as not safe.
    """
    member: Any = _Member(kind(), {"name": name, "safe": safe})
    return member  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Section:
    """Settings that belong together; an instance holds their values and cannot be changed.

    It is a frozen dataclass to its users and to the type checker. It is not made by `dataclass`,
    which generates code: for twenty classes that took 10 ms at the start of every command.
    """

    _members: ClassVar[Mapping[str, _Member]] = {}

    def __init_subclass__(cls) -> None:
        cls._members = {
            name: value for name, value in vars(cls).items() if isinstance(value, _Member)
        }
        for name, member in cls._members.items():
            setattr(cls, name, member.default)

    def __init__(self, **values: Any) -> None:
        for name in values:
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no field {name}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: use with_overrides")

    @classmethod
    def build(cls, values: Mapping[str, Value], prefix: str = "", **others: Any) -> Self:
        """Make a section from values by name; a setting that has none keeps its default."""
        for attribute, member in cls._members.items():
            name = prefix + (member.rules.get("name") or attribute)
            if isinstance(member.default, Section):
                others[attribute] = member.default.build(values, f"{name}.")
            elif name in values:
                others[attribute] = values[name]
        return cls(**others)

    @classmethod
    def list_settings(
        cls, prefix: str = "", path: tuple[str, ...] = (), *, safe: bool = False
    ) -> Iterator[Setting]:
        """Yield the settings of this section and of those within it, as they are declared."""
        for attribute, member in cls._members.items():
            default, rules = member.default, dict(member.rules)
            name, inner = prefix + (rules.pop("name", "") or attribute), (*path, attribute)
            if isinstance(default, Section):
                yield from default.list_settings(f"{name}.", inner, safe=rules["safe"])
            else:
                yield Setting(name, inner, default, **{"safe": safe, **rules})


# -- values ----------------------------------------------------------------------------------------


def parse_env(setting: Setting, text: str, origin: str) -> Value:
    """Read a value from the environment, where everything is text."""
    default = setting.default
    value: Any = text
    if isinstance(default, bool):
        value = _BOOLEANS.get(text.strip().lower(), text)
    elif isinstance(default, tuple):
        value = _parse_list(text)
    elif isinstance(default, int | float):
        try:
            value = float(text) if "." in text or "e" in text else int(text)
        except ValueError:
            value = text
    return check(setting, value, origin)


def _parse_list(text: str) -> Any:
    """Read a list as JSON, which memwell.toml looks like, or as texts with commas between them."""
    if text.strip().startswith("["):
        import json

        with suppress(ValueError):  # "[ab]*.md, notes" is a list with commas
            return json.loads(text)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def check(setting: Setting, value: Any, origin: str, written: Any = None) -> Value:
    """Return the value in the setting's type; raise `ConfigError` if it is not a valid one.

    The error shows the value as it is `written`: one that ${NAME} stands for may be a secret.
    """
    if expected := _find_mistake(setting, value):
        shown = "***" if setting.secret else repr(value if written is None else written)
        raise ConfigError(
            f"{setting.name} = {shown} ({origin}) should be {expected}",
            f"The default is {to_toml(setting.default)}",
        )
    return tuple(value) if isinstance(value, list) else value


def _find_mistake(setting: Setting, value: Any) -> str:
    """Return what the value should have been; "" if it is valid."""
    if not _has_type_of(setting.default, value):
        return _type_name(setting.default)
    if setting.one_of and value not in setting.one_of:
        return f"one of {', '.join(setting.one_of)}"
    if setting.limits:
        low, high = setting.limits
        if not low <= value <= high:
            return f"at least {low:g}" if high == inf else f"between {low:g} and {high:g}"
    return ""


def _has_type_of(default: Value, value: Any) -> bool:
    if isinstance(default, tuple):
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    if isinstance(default, bool) or isinstance(value, bool):  # True is an int, too
        return isinstance(default, bool) and isinstance(value, bool)
    return isinstance(value, int | float if isinstance(default, float) else type(default))


def _type_name(default: Value) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        tuple: "a list of strings",
        int: "a whole number",
        float: "a number",
    }
    return names.get(type(default), "a string")


def to_toml(value: Value) -> str:
    """Return a value as it is written in memwell.toml."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value)).replace("'", '"')
    return f'"{value}"' if isinstance(value, str) else str(value)
