"""An index of 100,000 chunks: real notes, and generated ones made of sentences of real texts.

It is built once and kept in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, batched, chain, islice
from pathlib import Path

import platformdirs

from bench import data
from memwell.ingest.chunk import CHUNKER_VERSION
from memwell.ingest.read import Recipe
from memwell.model import Chunk, Note
from memwell.store.index import Index
from memwell.store.notes import NoteFile
from memwell.store.schema import KEYWORD_TABLES, MIGRATIONS
from memwell.store.words import WORDS_VERSION
