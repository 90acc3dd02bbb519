"""The tables and ratios of `python -m bench peers`, from figures that are given."""

import pytest
from bench.peers.compare import rows
from bench.peers.peer import document_ranking
from bench.peers.table import Figures, package_table, table

SLOW = Figures("memwell", "hybrid", (4, 5), (0.3, 0.4), (0.0125, 0.02), 80e6, 90e6, 3e6, {"a": 0.7})
FAST = Figures("Other", "vectors", (2, 9), (0.1, 0.2), (0.025, 0.03), 40e6, 50e6, 1e6, {"a": 0.56})


def test_the_best_figure_of_a_column_is_bold() -> None:
    titles, _, own, other = table([SLOW, FAST]).splitlines()
    assert titles.startswith("|  | search | index, s | cold query, ms | warm query, ms |")
    assert own == (
        "| memwell | hybrid | 4.0 (5.0) | 300 (400) | **12.5 (20.0)** | 80 | 90 | 3.0 | **.700** |"
    )
    assert other == (
        "| Other | vectors | **2.0 (9.0)** | **100 (200)** | 25.0 (30.0) | **40** | **50** | **1.0**"
        " | .560 |"
    )


def test_ratios_compare_with_the_best_of_the_others() -> None:
    found = {row.name.split(",")[0]: row for row in rows([FAST, SLOW, FAST])}
    assert found["index"].figure == 4 / 2
    assert found["index"].met
    assert found["cold query"].figure == pytest.approx(0.3 / 0.1)
    assert not found["cold query"].met
    assert found["warm query"].met
    assert found["nDCG@10 a"].figure == pytest.approx(0.7 / 0.56)


def test_a_document_stands_where_its_best_passage_is() -> None:
    documents = {"x.md": "X", "y.md": "Y"}
    assert document_ranking(["y.md#3", "x.md#0", "y.md#1", "x.md"], documents) == ["Y", "X"]


def test_packages_are_listed_with_version_and_licence() -> None:
    assert package_table([("one", "1.0", "MIT")]).splitlines()[2] == "| one | 1.0 | MIT |"
