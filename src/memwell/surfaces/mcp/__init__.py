"""Memory for agents that speak the Model Context Protocol: `memwell mcp`."""
