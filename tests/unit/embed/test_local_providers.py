"""The contract of embedding providers, over every one that runs on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from memwell.embed.base import Embedder
from memwell.embed.gguf import GGUF, LONGEST_WINDOW, PREFIXES, read_header
from memwell.embed.minilm import MiniLM
from memwell.embed.sentence_transformers import SentenceTransformers
from memwell.embed.static import Static
from memwell.errors import BatchRefused, ProviderUnavailable
from tests.support import local_models

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

TEXT = "the salmon in a river"
LONG = "the salmon in a river, the boat on the road; " * 60
HEAVY = [
    *("gguf", "model2vec", "numpy", "onnxruntime", "sentence_transformers", "tokenizers"),
    *("torch", "transformers", "xllamacpp"),
]


def installed(*packages: str) -> None:
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def gguf_file(folder: Path) -> Path:
    installed("xllamacpp", "gguf")
    return local_models.minilm_gguf(folder)


@pytest.fixture(scope="session")
def static_folder(folder: Path) -> Path:
    installed("model2vec")
    return local_models.static_folder(folder)


@pytest.fixture(scope="session")
def torch_folder(folder: Path) -> Path:
    installed("sentence_transformers")
    return local_models.sentence_transformers_folder(folder)


@pytest.fixture(scope="session")
def minilm() -> MiniLM:
    return MiniLM()


@pytest.fixture(scope="session")
def gguf(gguf_file: Path) -> GGUF:
    return GGUF(str(gguf_file))


@pytest.fixture(scope="session")
def static(static_folder: Path) -> Static:
    return Static(str(static_folder))


@pytest.fixture(scope="session")
def torch_model(torch_folder: Path) -> SentenceTransformers:
    return SentenceTransformers(str(torch_folder))


PROVIDERS = {"minilm": 384, "gguf": 384, "static": 16, "torch_model": 384}
"""The fixture of each provider, and the length of its vectors."""


@pytest.fixture(params=PROVIDERS)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    found: Embedder = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["minilm", "gguf", "torch_model"])
def windowed(request: pytest.FixtureRequest) -> Embedder:
    """A provider with a small window."""
    found: Embedder = request.getfixturevalue(request.param)
    return found


def cosine(left: Matrix, right: Matrix) -> float:
    return float((left @ right.T)[0, 0])


# The contract of every provider


def test_it_says_what_it_is(embedder: Embedder, request: pytest.FixtureRequest) -> None:
    assert embedder.dimensions == PROVIDERS[request.node.callspec.params["embedder"]]
    assert embedder.model
    assert not embedder.remote
    assert embedder.fingerprint.startswith(embedder.name)
    assert embedder.window > 100


def test_vectors_are_of_unit_length_and_of_the_dimensions_said(embedder: Embedder) -> None:
    for rows in [*embedder.embed_documents([TEXT, LONG]), embedder.embed_query(TEXT)]:
        assert rows.dtype == np.float32
        assert rows.shape[1] == embedder.dimensions
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)


def test_the_same_text_has_the_same_vector(embedder: Embedder) -> None:
    alone = embedder.embed_documents([TEXT])[0]
    in_company = embedder.embed_documents(["a boat", LONG, TEXT])[2]
    assert np.array_equal(alone, embedder.embed_documents([TEXT])[0])
    assert in_company == pytest.approx(alone, abs=1e-5)


def test_a_query_is_embedded_like_a_document(embedder: Embedder) -> None:
    assert embedder.embed_query(TEXT) == pytest.approx(
        embedder.embed_documents([TEXT])[0], abs=1e-5
    )


def test_what_is_alike_is_near(embedder: Embedder) -> None:
    query = embedder.embed_query("the salmon")
    fish, car = embedder.embed_documents(["a fish in the river", "the motor of a car"])
    assert cosine(query, fish) > cosine(query, car)


def test_no_text_is_no_row(embedder: Embedder) -> None:
    none, blank, some = embedder.embed_documents(["", " \n\t ", TEXT])
    assert none.shape == blank.shape == embedder.embed_query("").shape == (0, embedder.dimensions)
    assert len(some) == 1
    assert embedder.embed_documents([]) == []


def test_half_a_character_is_no_failure(embedder: Embedder) -> None:
    assert len(embedder.embed_query("the fish \ud800")) == 1


def test_a_long_text_has_several_windows(windowed: Embedder) -> None:
    first, second = windowed.embed_documents([TEXT, LONG])
    assert len(first) == 1
    assert len(second) >= len(LONG.split()) // windowed.window
    assert len(windowed.embed_query(LONG)) == 1


def test_the_end_of_a_long_text_is_in_its_last_window(windowed: Embedder) -> None:
    rows = windowed.embed_documents([LONG + "Chess is a board game with pawns. " * 5])[0]
    query = windowed.embed_query("how to play chess")
    assert cosine(query, rows[-1:]) > cosine(query, rows[:1]) + 0.1


def test_two_threads_get_what_one_gets(embedder: Embedder) -> None:
    texts = [TEXT, "a car on the road", "the wheel " * 40, "a boat"]
    alone = embedder.embed_documents(texts)
    with ThreadPoolExecutor(2) as pool:
        for together in pool.map(embedder.embed_documents, [texts] * 4):
            for left, right in zip(together, alone, strict=True):
                assert left == pytest.approx(right, abs=1e-5)


def test_a_language_that_minilm_cannot_read_is_no_row(minilm: MiniLM) -> None:
    assert len(minilm.embed_query("昨日は友達と公園で桜を見ました")) == 0
    assert len(minilm.embed_documents(["我们昨天在公园里看樱花"])[0]) == 0
    assert len(minilm.embed_query("Gestern haben wir im Park Kirschblüten gesehen")) == 1


def test_words_that_a_static_model_does_not_know_are_no_row(static: Static) -> None:
    assert len(static.embed_query("xylophone quartz")) == 0


def test_a_static_model_reads_a_text_to_its_end(static: Static) -> None:
    rows = static.embed_documents(["river " * 5_000, "river " * 5_000 + "motor " * 5_000])
    assert cosine(rows[0], static.embed_query("river")) == pytest.approx(1, abs=1e-5)
    assert cosine(rows[0], rows[1]) < 0.99


# The same weights give the same vectors, whoever runs them


def test_the_gguf_gives_minilms_vectors(gguf: GGUF, minilm: MiniLM) -> None:
    """llama.cpp keeps some values in half precision: four decimals of a cosine are left."""
    for text in (TEXT, "Naïve café: e-mail a@b.c, $5.00?", "unaffable internationalisation"):
        expected = minilm.embed_query(text)
        assert cosine(gguf.embed_query(text), expected) > 0.9999
        assert gguf.embed_query(text) == pytest.approx(expected, abs=1e-3)


def test_torch_gives_minilms_vectors(torch_model: SentenceTransformers, minilm: MiniLM) -> None:
    assert torch_model.window == minilm.window
    for text in (TEXT, LONG, "Naïve café: e-mail a@b.c, $5.00?"):
        expected = minilm.embed_documents([text])[0]
        assert torch_model.embed_documents([text])[0] == pytest.approx(expected, abs=1e-5)


# Prefixes and fingerprints


def test_a_gguf_puts_its_prefixes_before_texts(gguf: GGUF, gguf_file: Path) -> None:
    prefixed = GGUF(str(gguf_file), query_prefix="query: ", document_prefix="passage: ")
    assert np.array_equal(prefixed.embed_query(TEXT), gguf.embed_query(f"query: {TEXT}"))
    assert np.array_equal(prefixed.embed_documents([TEXT])[0], gguf.embed_query(f"passage: {TEXT}"))
    assert len(prefixed.embed_documents([LONG])[0]) > 1


def test_prompts_of_the_models_own_are_used(
    torch_folder: Path, torch_model: SentenceTransformers, tmp_path: Path
) -> None:
    prompted = SentenceTransformers(str(local_models.with_prompts(torch_folder, tmp_path)))
    assert prompted.fingerprint != torch_model.fingerprint
    assert prompted.window == torch_model.window - len(["query", ":"])
    assert prompted.embed_query(TEXT) == pytest.approx(
        torch_model.embed_query(f"query: {TEXT}"), abs=1e-5
    )
    assert prompted.embed_documents([TEXT])[0] == pytest.approx(
        torch_model.embed_query(TEXT), abs=1e-5
    )


def test_a_gguf_has_a_fingerprint_of_file_and_prefixes(gguf_file: Path, tmp_path: Path) -> None:
    first = GGUF(str(gguf_file)).fingerprint
    assert GGUF(str(gguf_file)).fingerprint == first
    moved = Path(shutil.copy(gguf_file, tmp_path / "other.gguf"))
    assert GGUF(str(moved)).fingerprint == first
    assert GGUF(str(moved), query_prefix="q: ").fingerprint != first
    assert GGUF(str(moved), document_prefix="d: ").fingerprint != first
    with moved.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        opened.write(b"\x01")
    assert GGUF(str(moved)).fingerprint != first


def test_a_folder_has_a_fingerprint_of_its_files(static_folder: Path, tmp_path: Path) -> None:
    first = Static(str(static_folder)).fingerprint
    copy = shutil.copytree(static_folder, tmp_path / "copy")
    assert Static(str(copy)).fingerprint == first
    (copy / "README.md").write_text("another description")
    assert Static(str(copy)).fingerprint == first
    other = local_models.static_folder(tmp_path, seed=1)
    assert Static(str(other)).fingerprint != first


# The header of a GGUF file


def test_the_header_is_what_the_gguf_package_reads(gguf_file: Path) -> None:
    import gguf as package

    fields = package.GGUFReader(gguf_file).fields
    header = read_header(gguf_file)
    assert header.architecture == fields["general.architecture"].contents() == "bert"
    assert header.dimensions == fields["bert.embedding_length"].contents() == 384
    assert header.context == fields["bert.context_length"].contents() == 512
    assert header.pooling == fields["bert.pooling_type"].contents() == 1


def test_a_header_is_read_in_any_order(tmp_path: Path) -> None:
    installed("gguf")
    file = local_models.gguf_header(
        tmp_path / "any.gguf", "qwen3", pooling=3, vocabulary_last=False
    )
    header = read_header(file)
    assert (header.architecture, header.dimensions, header.context) == ("qwen3", 768, 32_768)


def test_gemma_has_the_prefixes_it_was_trained_with(tmp_path: Path) -> None:
    installed("xllamacpp", "gguf")
    file = tmp_path / "embeddinggemma-300M-Q8_0.gguf"
    local_models.gguf_header(file, "gemma-embedding", pooling=1)
    named = GGUF("embeddinggemma-300M-Q8_0", folder=tmp_path)
    assert (named.query_prefix, named.document_prefix) == PREFIXES["gemma-embedding"]
    assert (named.dimensions, named.window) == (768, LONGEST_WINDOW)
    assert GGUF(file.name, folder=tmp_path).fingerprint == named.fingerprint
    assert GGUF(named.model, folder=tmp_path, query_prefix="").query_prefix == ""
    with pytest.raises(ProviderUnavailable, match=r"cannot load .*gemma-embedding"):
        named.embed_query(TEXT)


# Errors, with a remedy


@pytest.mark.parametrize("length", [0, 3, 12, 23, 40, 100, 300])
def test_a_gguf_cut_short_in_its_header(gguf_file: Path, tmp_path: Path, length: int) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(gguf_file.read_bytes()[:length])
    with pytest.raises(ProviderUnavailable, match=r"short\.gguf (is not|cannot be read as) a GGUF"):
        GGUF(str(short))


def test_a_gguf_cut_short_in_its_tensors(gguf_file: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(gguf_file.read_bytes()[: 40 << 20])
    with pytest.raises(ProviderUnavailable, match="cut short or damaged") as raised:
        GGUF(str(short)).embed_query(TEXT)
    assert "Download the model again" in raised.value.remedy


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    installed("xllamacpp")
    (tmp_path / "notes.gguf").write_text("# Notes\n")
    with pytest.raises(ProviderUnavailable, match="is not a GGUF file"):
        GGUF("notes", folder=tmp_path)


@pytest.mark.parametrize("pooling", [None, 0, 4])
def test_a_model_that_does_not_embed(tmp_path: Path, pooling: int | None) -> None:
    installed("xllamacpp", "gguf")
    file = local_models.gguf_header(tmp_path / "chat.gguf", "llama", pooling=pooling)
    with pytest.raises(ProviderUnavailable, match=r"not an embedding model: .* is llama"):
        GGUF(str(file))


def test_a_prefix_as_long_as_a_window(gguf_file: Path) -> None:
    with pytest.raises(BatchRefused, match="leaves no room"):
        GGUF(str(gguf_file), query_prefix="word " * 600).embed_query(TEXT)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    installed("xllamacpp", "model2vec", "sentence_transformers")
    with pytest.raises(ProviderUnavailable, match=f"no GGUF model none.*into {tmp_path}"):
        GGUF("none", folder=tmp_path)
    with pytest.raises(
        ProviderUnavailable, match=r"model\.safetensors is missing|config\.json is missing"
    ):
        Static(str(tmp_path))
    for name in (str(tmp_path / "none"), "sentence-transformers/all-MiniLM-L6-v2"):
        with pytest.raises(ProviderUnavailable, match="does not download models"):
            SentenceTransformers(name)


def test_folders_with_damaged_models(tmp_path: Path) -> None:
    installed("model2vec", "sentence_transformers")
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / file).write_text("{")
    with pytest.raises(ProviderUnavailable, match="does not hold the vectors"):
        Static(str(tmp_path))
    with pytest.raises(ProviderUnavailable, match="cannot load"):
        SentenceTransformers(str(tmp_path)).embed_query(TEXT)


class Kind(NamedTuple):
    """A provider, as a script in another process imports it."""

    imported: str
    package: str
    extra: str
    fixture: str


SENTENCES = "sentence_transformers"
KINDS = [
    Kind("gguf import GGUF", "xllamacpp", "gguf", "gguf_file"),
    Kind("static import Static", "model2vec", "static", "static_folder"),
    Kind(
        f"{SENTENCES} import SentenceTransformers",
        SENTENCES,
        "sentence-transformers",
        "torch_folder",
    ),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.extra)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def path(kind: Kind, request: pytest.FixtureRequest) -> Path:
    """The path of the model of each kind."""
    found: Path = request.getfixturevalue(kind.fixture)
    return found


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.process
def test_a_missing_package_is_named_with_its_extra(kind: Kind) -> None:
    script = f"""
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        return None if name == "{kind.package}" else self.finder.find_spec(name, *rest)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path if hasattr(finder, "find_spec")]
from memwell.embed.{kind.imported} as Provider
from memwell.errors import ProviderUnavailable
try:
    Provider("/nowhere")
except ProviderUnavailable as error:
    print(error)
"""
    done = python(script)
    expected = f"The package {kind.package} is not installed. pip install 'memwell[{kind.extra}]'"
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.process
def test_making_one_loads_nothing_heavy(kind: Kind, path: Path) -> None:
    script = f"""
import sys
from memwell.embed.{kind.imported} as Provider
Provider(sys.argv[1]).fingerprint
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert python(script, path).stdout.strip() == "[]"


@pytest.mark.process
def test_using_one_prints_nothing_and_asks_nobody(kind: Kind, path: Path) -> None:
    """Checks the file descriptors, so that output of libraries counts too."""
    script = f"""
import sys
from memwell.embed.{kind.imported} as Provider

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        raise AssertionError(f"{{event}} {{arguments}}")

sys.addaudithook(watch)
provider = Provider(sys.argv[1])
assert len(provider.embed_documents([sys.argv[2]])[0]) >= 1
assert len(provider.embed_query("the fish")) == 1
"""
    done = python(script, path, LONG)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux lists sockets as files")
def test_llama_cpp_listens_where_nobody_can_reach_it(gguf_file: Path) -> None:
    script = f"""
import os, sys
from memwell.embed.{KINDS[0].imported} as Provider
Provider(sys.argv[1]).embed_query("the fish")
mine = {{os.readlink(f"/proc/self/fd/{{fd}}") for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{{fd}}")}}
for table in ("tcp", "tcp6"):
    for line in open(f"/proc/net/{{table}}").readlines()[1:]:
        assert f"socket:[{{line.split()[9]}}]" not in mine, line
for line in open("/proc/net/unix").readlines()[1:]:
    parts = line.split()
    if f"socket:[{{parts[6]}}]" in mine and len(parts) > 7:
        assert not os.path.exists(parts[7]), line
"""
    done = python(script, gguf_file)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("make", [Static, SentenceTransformers])
def test_a_folder_that_is_not_named_is_not_the_current_one(
    make: type[Static] | type[SentenceTransformers], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "model2vec" if make is Static else "sentence_transformers"
    monkeypatch.setitem(sys.modules, package, type(sys)(package))
    monkeypatch.setattr(sys.modules[package], "__spec__", object(), raising=False)
    with pytest.raises(ProviderUnavailable, match=rf"Set embedding\.{make.name}\.model"):
        make("")
