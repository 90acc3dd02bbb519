"""Adapters for frameworks: each module imports its framework, and this package imports none.

langchain       MemwellRetriever
langgraph       MemwellStore
llama_index     MemwellRetriever
openai_agents   MemwellSession
pydantic_ai     memory_toolset
crewai          MemwellMemory
autogen         MemwellMemory
haystack        MemwellRetriever
"""
