"""Functions that the tests give to models as tools."""

from dataclasses import dataclass

import msgspec


class Place(msgspec.Struct):
    city: str
    country: str = "NO"


@dataclass
class Weather:
    degrees: int
    wind: str


def get_weather(city: str, days: int = 1) -> Weather:
    """The weather in a city.

    It may be wrong.

    Args:
        city: its name,
            in English
        days (int): how many days ahead

    Returns:
        What it will be.
    """
    return Weather(20 + days, f"calm in {city}")


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b
