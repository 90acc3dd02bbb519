"""What an agent is told and must keep straight: what may be a fact, how long, and facts by rule."""
