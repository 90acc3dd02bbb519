"""Tidies a memory: merges facts that say the same, supersedes contradicted ones, digests weeks.

find facts and logs ▶ propose (rules, a language model) ▶ plan file ▶ apply ▶ undo

Nothing changes without a plan, which is a file of the user: to be read, edited, applied and undone.
"""
