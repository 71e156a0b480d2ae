import svir

client = svir.Client()


def service(environ, start_response):
    question = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
    with client.stream(question) as stream:
        start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
        for text in stream.texts():
            yield text.encode()
