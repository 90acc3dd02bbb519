"""Statistics of tables for the planner. Autovacuum collects them only minutes after a load."""

from __future__ import annotations

from memwell.store.postgres.session import Session

_FUNCTION = "memwell.analyse_grown(text)"


def analyse_grown(session: Session) -> None:
    """Collect statistics of the tenant's partitions that have none, or have doubled since.

    Only roles that are bound to nothing may do it: the tables are locked against each other's
    ANALYZE and VACUUM until the transaction ends.
    """
    if session.value(
        f"SELECT has_function_privilege(to_regprocedure('{_FUNCTION}'), 'EXECUTE')"
        " WHERE %(tenant)s != ''"
    ):
        session.run("SELECT analyse_grown(%(tenant)s)")
