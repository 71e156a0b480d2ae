"""Functions that the model calls, with each call and its result shown; a method is a tool, too."""

from concurrent.futures import ThreadPoolExecutor

import svir


class Weather:
    def __init__(self, degrees: int) -> None:
        self.degrees = degrees

    @svir.tool(name="get_weather", description="The weather in a city.")
    def of(self, city: str, days: int = 1) -> dict[str, int]:
        return {"degrees": self.degrees + days}


with ThreadPoolExecutor() as executor:  # the calls of one answer run at once
    run = svir.Client().run("How warm is it in Oslo?", tools=[Weather(20).of], max_rounds=4, executor=executor)
    for event in run:
        match event:
            case svir.Text(text):
                print(text, end="", flush=True)
            case svir.ToolResult(call, content):
                print(f"{call.name}({call.arguments}) -> {content}")
print([message["role"] for message in run.messages])
