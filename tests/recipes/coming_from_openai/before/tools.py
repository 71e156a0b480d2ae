import json

from openai import OpenAI


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"calm in {city}"


schema = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
function = {"name": "get_weather", "description": get_weather.__doc__, "parameters": schema}
messages = [{"role": "user", "content": "How is the weather in Oslo?"}]
client = OpenAI()
while True:
    completion = client.chat.completions.create(
        model="gpt-5-mini", messages=messages, tools=[{"type": "function", "function": function}]
    )
    message = completion.choices[0].message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        content = get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
print(message.content)
