"""Flask: an answer passed on as it comes. `gunicorn --worker-class gthread --threads 32 flask_svir:app`

A WSGI server sees that a client has gone when it writes, and calls the relay's `close`, which ends the answer.
"""

import flask

import svir

app = flask.Flask(__name__)
client = svir.Client()  # OPENAI_BASE_URL and OPENAI_API_KEY
stopping = svir.Cancel()  # ends all answers at once: see gunicorn_svir.py


@app.post("/chat")
def chat() -> flask.Response:
    stream = client.stream(flask.request.get_json()["messages"], cancel=stopping)
    return flask.Response(svir.relay(stream, keepalive=15), mimetype="text/event-stream")


@app.errorhandler(svir.SvirError)
def failed(error: svir.SvirError) -> tuple[dict[str, str], int]:
    return {"error": error.__class__.__name__}, 502
