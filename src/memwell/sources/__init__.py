"""Other programs' data as memory: the transcripts of agents, and exports of other memories."""
