"""The tools of an MCP server: `with mcp_tools("http://localhost:8000/mcp") as tools: client.run(..., tools=tools)`."""

from contextlib import contextmanager
from functools import partial

from anyio.from_thread import start_blocking_portal
from mcp import Client

import svir


@contextmanager
def mcp_tools(server):
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as session:

        def call(name, /, **arguments):
            result = portal.call(session.call_tool, name, arguments)
            text = "\n".join(part.text for part in result.content if part.type == "text")
            if result.is_error:
                raise RuntimeError(text)
            return text

        yield [
            svir.Tool(
                partial(call, tool.name), name=tool.name, description=tool.description, parameters=tool.input_schema
            )
            for tool in portal.call(session.list_tools).tools
        ]
