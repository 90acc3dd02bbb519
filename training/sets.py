"""The labelled sets whose mean is the figure for English."""

ENGLISH = (
    "anthropic-docs",
    "scifact",
    "cranfield",
    "medline",
    "locomo-turn-a",
    "cosqa-code",
    "xquad-en",
)
