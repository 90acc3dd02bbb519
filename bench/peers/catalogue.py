"""The stores that are compared: their packages, and the search that each offers by itself."""

from __future__ import annotations

from dataclasses import dataclass

HYBRID, VECTORS = "hybrid", "vectors"


@dataclass(frozen=True, slots=True)
class Product:
    """A store; its driver is the module `bench.peers.drivers.NAME`."""

    name: str
    label: str
    packages: tuple[str, ...]
    search: str


MEMWELL = Product("memwell", "memwell", ("memwell",), HYBRID)
PEERS = (
    Product("chromadb", "Chroma", ("chromadb",), VECTORS),
    Product("lancedb", "LanceDB", ("lancedb",), HYBRID),
    Product("txtai", "txtai", ("txtai",), HYBRID),
    Product(
        "sqlite_utils",
        "sqlite-utils, sqlite-vec",
        ("sqlite-utils", "sqlite-vec", "pysqlite3-binary"),
        f"{HYBRID}, by hand",
    ),
    Product("llm", "llm", ("llm",), VECTORS),
    Product("mem0", "mem0, Qdrant", ("mem0ai", "qdrant-client"), VECTORS),
)
BY_NAME = {product.name: product for product in (MEMWELL, *PEERS)}
