"""OpenAI's own client for a test server, and a vector store with a few files."""

from __future__ import annotations

from openai import OpenAI

from tests.support.http_servers import Server

NOTES = {
    "cats.md": b"# Cats\n\nThe cat is called Miso. She eats fish every morning.",
    "dogs.txt": b"The dog Rex likes bones and long walks in the morning.",
    "garden.md": "Tomatoes need sun; the beds lie behind the café.".encode(),
}


def openai_client(server: Server) -> OpenAI:
    return OpenAI(base_url=f"{server.address}/v1", api_key=server.token or "none", max_retries=0)


def create_filled_store(
    client: OpenAI, notes: dict[str, bytes] = NOTES
) -> tuple[str, dict[str, str]]:
    """Create a store with files; return its id, and the ids of the files by name."""
    store = client.vector_stores.create(name="notes")
    uploaded = {
        name: client.files.create(file=(name, content), purpose="assistants").id
        for name, content in notes.items()
    }
    batch = client.vector_stores.file_batches.create_and_poll(
        store.id, file_ids=[*uploaded.values()], poll_interval_ms=50
    )
    assert batch.status == "completed"
    assert batch.file_counts.completed == len(notes)
    return store.id, uploaded
