"""Celery: a task that asks a model. `celery -A celery_svir worker --pool prefork`

The client is made once, before the worker forks. A soft time limit ends the call where it waits.
"""

from celery import Celery

import svir

app = Celery("celery_svir")
app.config_from_object("celeryconfig")
client = svir.Client()  # OPENAI_BASE_URL and OPENAI_API_KEY


@app.task(soft_time_limit=600)
def ask(prompt: str) -> str:
    return client.complete(prompt).text
