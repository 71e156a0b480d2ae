"""A list of pydantic models, shown while it is written and then decoded."""

from typing import Annotated

import pydantic

import svir


class Person(pydantic.BaseModel):
    name: Annotated[str, "as the person writes it"]
    age: int | None = pydantic.Field(ge=0, default=None)


client = svir.Client()
stream = client.stream("Who wrote the first programs?", response_format=svir.json_schema(list[Person]))
for text in stream.texts():
    print(text, end="", flush=True)
try:
    for person in stream.completion.parse(list[Person]):
        print("\n", person.name, person.age)
except svir.OutputError as error:  # cut by a limit, refused, blocked, or of another shape
    print("no list of people:", error)
