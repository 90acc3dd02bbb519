"""The list of workspaces of an agent, in PostgreSQL."""

from __future__ import annotations

from dataclasses import asdict

from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.values import Workspace
from memwell.store.postgres.server import Server
from memwell.store.postgres.sql import delete_sql, insert_sql, of_agent


class WorkspaceTable(WorkspaceList):
    """The list of workspaces of one agent."""

    def __init__(self, server: Server, agent: str) -> None:
        self._server = server
        self._agent = agent

    def list_all(self) -> list[Workspace]:
        rows = self._server.rows(
            self._agent,
            "SELECT root, conventional, include FROM workspace_list l"
            f" WHERE {of_agent('l')} ORDER BY root",
        )
        return [
            Workspace(root, conventional, tuple(include)) for root, conventional, include in rows
        ]

    def put(self, workspace: Workspace) -> None:
        row = {**asdict(workspace), "include": [*workspace.include]}
        self._server.rows(self._agent, insert_sql("workspace_list", row, key=("root",)), **row)

    def remove(self, root: str) -> None:
        statement = delete_sql("workspace_list", "t.root = %(root)s")
        self._server.rows(self._agent, statement, root=root)
