import svir


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"calm in {city}"


client = svir.Client()
messages = [{"role": "user", "content": "How is the weather in Oslo?"}]
for event in client.run(model="gpt-5-mini", messages=messages, tools=[get_weather]):
    completion = event  # the last one is the answer that called nothing
print(completion.text)
