"""`memwell eval`."""

from __future__ import annotations

from pathlib import Path

import click

from memwell.surfaces.cli.common import json_option, mode_option, print_json
from memwell.surfaces.cli.progress import progress_bar


@click.command("eval")
@click.argument("dataset", metavar="DATASET", type=click.Path(path_type=Path))
@click.option(
    "--run", "run_file", type=click.Path(path_type=Path), help="Also write the rankings here."
)
@mode_option
@json_option
def eval_command(dataset: Path, run_file: Path | None, mode: str | None, as_json: bool) -> None:
    """Measure how well a labelled set is answered.

    DATASET is a folder with corpus.jsonl, queries.jsonl and qrels.tsv. It is indexed in a
    temporary place; your memory is not touched.
    """
    from memwell import config
    from memwell.evaluate.dataset import load
    from memwell.evaluation import evaluate_memory

    settings = config.load(None)
    mode = mode or settings["search.mode"]
    cache = config.home_folder() / "evaluation.db"
    with progress_bar("embedding") as embedding, progress_bar("evaluating") as progress:
        result = evaluate_memory(load(dataset), settings, mode, cache, progress, embedding)
    if run_file:
        run_file.write_text("".join(f"{line}\n" for line in result.run_lines()), encoding="utf-8")
    rows = {"all": result.overall, **result.by_category}
    if as_json:
        print_json({"name": result.name, "queries": result.questions, "documents": result.documents,
                    "metrics": result.overall, "categories": result.by_category})  # fmt: skip
        return
    click.echo(f"{result.name}: {result.questions} queries, {result.documents} documents")
    width = max(map(len, rows))
    click.echo(" " * width + "".join(f"{name:>11}" for name in result.overall))
    for name, figures in rows.items():
        click.echo(f"{name:<{width}}" + "".join(f"{figure:>11.3f}" for figure in figures.values()))
