"""Programs of other frameworks and languages that use memwell, each in an environment of its own."""
