"""The file ``llm.log``: every request to a language model, and its answer.

Each line is a JSON object. It never holds a key: those of the settings are masked, and headers are
not logged.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from memwell.config.settings import Settings
from memwell.errors import as_written
from memwell.files import append_private
from memwell.llm.budget import Budget, Exchange, Log
from memwell.net.responses import ApiKey


def budget_of(settings: Settings, warn: Callable[[str], object]) -> Budget:
    """Return the budget that the settings give a command; it logs calls to ``llm.log``."""
    llm = settings.llm
    log = _log_to_file(llm.log, settings.api_keys, warn) if llm.log else None
    return Budget(llm.max_calls, llm.max_tokens, log=log)


def _log_to_file(name: str, api_keys: Iterable[str], warn: Callable[[str], object]) -> Log:
    """Return a function that appends to the file, and warns once if it cannot."""
    path = Path(name).expanduser()
    keys = [ApiKey(key) for key in api_keys]
    failed = False

    def write(exchange: Exchange) -> None:
        nonlocal failed
        line = json.dumps(_describe(exchange, keys), ensure_ascii=False) + "\n"
        try:
            append_private(path, line)
        except OSError as error:
            if not failed:
                warn(f"llm.log = {as_written(name)!r} cannot be written: {error.strerror}")
            failed = True

    return write


def _describe(exchange: Exchange, keys: list[ApiKey]) -> dict[str, object]:
    def mask(text: str) -> str:
        for key in keys:
            text = key.mask(text)
        return text

    answer = exchange.answer
    return {
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "provider": exchange.provider,
        "model": exchange.model,
        "address": as_written(exchange.address),
        "messages": [
            {"role": role, "content": mask(text)}
            for role, text in (("system", exchange.system), ("user", exchange.user))
        ],
        "answer": mask(answer.text) if answer else None,
        "input_tokens": answer.input_tokens if answer else None,
        "output_tokens": answer.output_tokens if answer else None,
        "error": mask(exchange.error),
    }
