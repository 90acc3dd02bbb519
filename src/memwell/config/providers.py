"""The settings of providers: embedding models, language models, a remote vector store."""

from __future__ import annotations

from math import inf
from typing import Any

from memwell.config.fields import Section, section, setting

OPENAI_URL = "https://api.openai.com/v1"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
LOCAL_EMBEDDERS = frozenset(
    {"memwell", "minilm", "gguf", "sentence-transformers", "static", "test"}
)
"""The embedding providers that compute on this machine, and wait for no other."""


def _api_key(variable: str) -> str:
    reason = f"The API key. Empty: the environment variable {variable}."
    return setting("", reason, secret=True, fallback_env=variable)


class GgufSettings(Section):
    """The embedding provider ``gguf``."""

    model: str = setting(
        "embeddinggemma-300M-Q8_0.gguf", "A GGUF file: a path, or a name in the folder."
    )
    folder: str = setting("", "The folder of GGUF files. Empty: `models` in the home folder.")


class OpenAIEmbeddingSettings(Section):
    """The embedding provider ``openai``."""

    model: str = setting("text-embedding-3-small", "Cheap, and good enough.")
    dimensions: int = setting(1536, "The length of that model's vectors.", limits=(1, 65_536))
    base_url: str = setting(
        OPENAI_URL, "Any server with the same protocol: Ollama, LM Studio, vLLM, llama-server."
    )
    key: str = _api_key("OPENAI_API_KEY")


class GeminiEmbeddingSettings(Section):
    """The embedding provider ``gemini``."""

    model: str = setting("gemini-embedding-001", "Google's current embedding model.")
    dimensions: int = setting(
        768, "A quarter of the full length, and hardly worse.", limits=(1, 65_536)
    )
    base_url: str = setting(GEMINI_URL, "Google's address.")
    key: str = _api_key("GEMINI_API_KEY")


class SentenceTransformersSettings(Section):
    """The embedding provider ``sentence-transformers``."""

    model: str = setting("", "A folder with a sentence-transformers model.")


class StaticSettings(Section):
    """The embedding provider ``static``."""

    model: str = setting("", "A folder with a model in the model2vec format.")


class EmbeddingSettings(Section):
    """Which providers make the vectors, and when."""

    chain: tuple[str, ...] = setting(
        ("memwell",),
        'Embedding providers; the first that works is used. "memwell" is the model of this package;'
        " it runs on this machine. A remote provider is used only if it is named here. Empty:"
        " keyword search only.",
    )
    on_search: int = setting(
        16,
        "New passages that a search embeds itself (about a second). If there are more, they wait"
        " for `memwell index`.",
        limits=(0, inf),
    )
    cache_mb: float = setting(
        256.0,
        "Size of the vector cache, so that no text is embedded twice: about 150,000 passages of"
        " the default model.",
        limits=(0, inf),
    )
    keep_days: float = setting(
        30.0,
        "Days for which the vectors of the previous model are kept, in case you return to it.",
        limits=(0, inf),
    )
    gguf: GgufSettings = section(GgufSettings)
    openai: OpenAIEmbeddingSettings = section(OpenAIEmbeddingSettings)
    gemini: GeminiEmbeddingSettings = section(GeminiEmbeddingSettings)
    sentence_transformers: SentenceTransformersSettings = section(
        SentenceTransformersSettings, name="sentence-transformers"
    )
    static: StaticSettings = section(StaticSettings)

    def provider(self, name: str) -> dict[str, Any]:
        """Return the settings of a provider; none if it has none."""
        return {
            one.path[-1]: one.get(self)
            for one in self.list_settings()
            if one.name.startswith(f"{name}.")
        }


class OpenAIChatSettings(Section):
    """The language models of ``openai:``."""

    base_url: str = setting(OPENAI_URL, "Any server with the same protocol.")
    key: str = _api_key("OPENAI_API_KEY")


class GeminiChatSettings(Section):
    """The language models of ``gemini:``."""

    base_url: str = setting(GEMINI_URL, "Google's address.")
    key: str = _api_key("GEMINI_API_KEY")


class LlmSettings(Section):
    """Language models, and how much a command may use them."""

    default: str = setting(
        "",
        "A language model, as openai:MODEL or gemini:MODEL. Empty: none is used, and nothing"
        " leaves the machine.",
    )
    ingest: str = setting("", "The model for `ingest-files`. Empty: llm.default.")
    timeout: float = setting(30.0, "Seconds to wait for an answer.", limits=(0.1, 3600))
    max_calls: int = setting(
        200, "Calls per command, so that none costs a fortune.", limits=(0, inf)
    )
    max_tokens: int = setting(
        400_000, "Tokens per command: those sent and those received.", limits=(0, inf)
    )
    log: str = setting(
        "", "A file that records all requests and answers, one JSON object per line. Empty: none."
    )
    openai: OpenAIChatSettings = section(OpenAIChatSettings)
    gemini: GeminiChatSettings = section(GeminiChatSettings)


class RemoteSettings(Section):
    """A remote vector store that is searched together with the index."""

    base_url: str = setting(
        "",
        "The address of a server with OpenAI's vector store API, which is searched together with"
        " the index. Empty: none, and no query leaves the machine.",
    )
    vector_store: str = setting("", "The id of the vector store on that server.")
    key: str = setting(
        "", "The API key of that server. No environment variable replaces it.", secret=True
    )
    timeout: float = setting(3.0, "Seconds that a search waits for that server.", limits=(0.1, 60))
