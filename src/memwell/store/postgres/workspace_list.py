"""The list of workspaces of an agent, in PostgreSQL."""

from __future__ import annotations

from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.values import Workspace
from memwell.store.postgres.server import Server
from memwell.store.postgres.sql import of_agent


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

    def put(self, workspace: Workspace) -> Workspace:
        self._server.rows(
            self._agent,
            """
            INSERT INTO workspace_list (tenant, agent, root, conventional, include)
            VALUES (%(tenant)s, %(agent)s, %(root)s, %(conventional)s, %(include)s)
            ON CONFLICT (tenant, agent, root) DO UPDATE
                SET conventional = excluded.conventional, include = excluded.include
            """,
            root=workspace.root,
            conventional=workspace.conventional,
            include=[*workspace.include],
        )
        return workspace

    def remove(self, root: str) -> None:
        statement = f"DELETE FROM workspace_list l WHERE {of_agent('l')} AND l.root = %(root)s"
        self._server.rows(self._agent, statement, root=root)
