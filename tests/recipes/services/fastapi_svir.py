"""FastAPI and Starlette: an answer passed on as it comes. `uvicorn fastapi_svir:app`

The answer is read in a thread, and a thread that waits in a read does not notice that the client has gone. So the
event loop watches, and cancels the call once the client has gone or the response is over.
"""

import asyncio

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

import svir

app = FastAPI()
client = svir.Client()  # OPENAI_BASE_URL and OPENAI_API_KEY


@app.post("/chat")
async def chat(request: Request) -> StreamingResponse:
    messages = (await request.json())["messages"]
    cancel = svir.Cancel()
    request.state.watch = asyncio.create_task(cancel_when_over(request, cancel))  # keeps it alive
    stream = await run_in_threadpool(client.stream, messages, cancel=cancel)
    return StreamingResponse(svir.relay(stream), media_type="text/event-stream")


async def cancel_when_over(request: Request, cancel: svir.Cancel) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    cancel.cancel()


@app.exception_handler(svir.SvirError)
async def failed(request: Request, error: svir.SvirError) -> JSONResponse:
    return JSONResponse({"error": error.__class__.__name__}, status_code=502)
