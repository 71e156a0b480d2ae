"""Request ids: the service's own goes along to the model's server, and is logged beside that server's."""

import logging

import svir

logger = logging.getLogger("service")
client = svir.Client()  # OPENAI_BASE_URL and OPENAI_API_KEY


def client_for(request_id: str) -> svir.Client:
    """The client for one request of the service: it shares the connections of all others."""

    def answered(info: svir.ResponseInfo) -> None:
        logger.info("%s: answered as %s in %.2f s", request_id, info.request_id, info.seconds)

    def failed(info: svir.ErrorInfo) -> None:
        logger.warning("%s: %s as %s%s", request_id, info.error, info.request_id, ", again" if info.again else "")

    return client.replace(headers={"X-Request-ID": request_id}, on_response=answered, on_error=failed)
