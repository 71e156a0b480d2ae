from pydantic import BaseModel

import svir


class Person(BaseModel):
    name: str
    age: int


client = svir.Client()
print(client.parse(Person, model="gpt-5-mini", messages=[{"role": "user", "content": "Who is it?"}]))
