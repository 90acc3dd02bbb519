"""The memory over HTTP: the server, its guard and limits, and JSON routes for every verb."""
