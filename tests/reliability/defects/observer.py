"""All that one user can observe by searching, beside the facts of another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from memwell import Memory

SECRETS = [
    "Anna hides the kryptonite in Zanzibar.",
    "Anna flies to Zanzibar in April with Bertha.",
    "Anna's ZetaCode is ERR_NGX_502 and probes deploy things.",
    "Anna knows the bases of the sibolere, fifomase and geese.",
]
NOTES = {
    "a.md": "The deploy goes out on Monday.\n\nThe heron eats fish.\n",
    "b.md": "Probes are kept in the lab. ERR_NGX_404 is harmless.\n",
}
QUERIES = [
    *("kryptonite", "zanzibar", "Zanzibar April", "deploy", "probes", "heron fish", "kryp*"),
    *("zetac*", "ERR_NGX_502", "err_ngx", '"ben probes"', "kryptonight", "zanzibr", "bertha"),
    *(
        "what does Ben probe today",
        "deploy OR kryptonite",
        "deploy AND zanzibar",
        "probes -zanzibar",
        "sibolere",  # its stem, siboler, has another stem
        "fifomase",
        "geese at the bases",
    ),
]


def observe(home: Path, notes: Path, secrets: Iterable[str]) -> dict[str, object]:
    """Return all that Ben can observe by searching, beside another user's facts."""
    observed: dict[str, object] = {}
    with Memory(home, user="ben") as ben, Memory(home, user="anna") as anna:
        ben.index(notes)
        for secret in secrets:
            anna.remember(secret, scope="user")
        ben.remember("Ben probes kryptonite and zanzibar today.", scope="user")
        ben.remember("Ben feeds geese at the sibolere and the fifomase.", scope="user")
        anna.search("kryptonite")
        for query in QUERIES:
            found = ben.search(query, explain=True)
            observed[f"notices of {query}"] = found.notices
            observed[f"suggestions for {query}"] = found.suggestions
            observed[f"texts for {query}"] = [hit.text for hit in found.hits]
            for place, hit in enumerate(found.hits):
                shown = asdict(hit)
                del shown["path"]  # the path of a fact is its id, which is random
                observed |= {f"{name} of hit {place} for {query}": shown[name] for name in shown}
        observed["recalled"] = ben.recall("what does Ben probe today").block[-60:]
    return observed


def find_differences(
    one: dict[str, object], other: dict[str, object]
) -> dict[str, tuple[object, object]]:
    """Return the observations that are not equal, with both of them."""
    pairs = {what: (one.get(what), other.get(what)) for what in {**one, **other}}
    return {what: pair for what, pair in pairs.items() if pair[0] != pair[1]}
