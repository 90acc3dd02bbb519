"""The tools store, find and read; an error asks the model to try again."""

from memwell import Memory
from memwell.integrations.pydantic_ai import memory_toolset
from pydantic_ai import Agent
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart

memory = Memory("data")
memory.index("examples/notes/home", embed=False)
calls = [
    ToolCallPart("memory_store", {"text": "My key is sk-abcdefghijklmnopqrstuvwxyz123456."}),
    ToolCallPart("memory_store", {"text": "The cat is afraid of storms.", "category": "fact"}),
    ToolCallPart("memory_search", {"query": "what is the cat afraid of"}),
    ToolCallPart("memory_get", {"citation": "pets.md#L6"}),
]


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse([calls.pop(0) if calls else TextPart("done")])


agent = Agent(FunctionModel(model), toolsets=[memory_toolset(memory)], retries=2)
parts = [part for message in agent.run_sync("hi").all_messages() for part in message.parts]
answers = [part.content for part in parts if part.part_kind in ("tool-return", "retry-prompt")]
assert "contains a secret" in answers[0]
assert "Store another statement" in answers[0]
assert answers[1].startswith("added: fact:")
assert answers[2][0]["text"] == "The cat is afraid of storms."
assert "animal" in answers[3]
