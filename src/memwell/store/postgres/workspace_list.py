"""The list of workspaces of an agent, in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from memwell.store.postgres.server import Server
from memwell.store.postgres.sql import of_agent
from memwell.store.sqlite.workspace_list import Workspace, find_innermost


class WorkspaceTable:
    """The list of workspaces of one agent."""

    def __init__(self, server: Server, agent: str) -> None:
        self._server = server
        self._agent = agent

    def list_all(self) -> list[Workspace]:
        """Return the workspaces; none if there is no list yet."""
        rows = self._server.rows(
            self._agent,
            "SELECT root, conventional, include FROM workspace_list l"
            f" WHERE {of_agent('l')} ORDER BY root",
        )
        return [
            Workspace(root, conventional, tuple(include)) for root, conventional, include in rows
        ]

    def find_around(self, path: Path) -> Workspace | None:
        """Return the innermost workspace that contains `path`."""
        return find_innermost(self.list_all(), path)

    def put(self, workspace: Workspace) -> Workspace:
        """Add a workspace, or replace the one with the same folder."""
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
        """Take a workspace off the list."""
        statement = f"DELETE FROM workspace_list l WHERE {of_agent('l')} AND l.root = %(root)s"
        self._server.rows(self._agent, statement, root=root)
