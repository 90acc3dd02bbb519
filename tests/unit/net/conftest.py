"""Fixtures for tests of the remote providers."""

from tests.support.remote_embedders import kind, other_server, server

__all__ = ["kind", "other_server", "server"]
