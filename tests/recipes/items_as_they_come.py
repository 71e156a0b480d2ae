"""A list in an answer, item by item while the model writes; and a value that fills a page as it grows."""

import msgspec

import svir


class Person(msgspec.Struct):
    """A person."""

    name: str
    age: int


client = svir.Client()
with client.items(Person, "Name three people and their ages.") as people:
    for person in people:
        print(person.name, person.age)
