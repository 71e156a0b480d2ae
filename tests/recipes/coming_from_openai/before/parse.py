from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


client = OpenAI()
completion = client.chat.completions.parse(
    model="gpt-5-mini",
    messages=[{"role": "user", "content": "Who is it?"}],
    response_format=Person,
)
print(completion.choices[0].message.parsed)
