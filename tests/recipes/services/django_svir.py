"""Django: an answer passed on as it comes. `gunicorn --worker-class gthread --threads 32 django_svir:app`"""

import json

import django.conf
import django.core.wsgi
import django.http
import django.urls

import svir

client = svir.Client()  # OPENAI_BASE_URL and OPENAI_API_KEY


def chat(request: django.http.HttpRequest) -> django.http.HttpResponseBase:
    try:
        stream = client.stream(json.loads(request.body)["messages"])
    except svir.SvirError as error:
        return django.http.JsonResponse({"error": error.__class__.__name__}, status=502)
    return django.http.StreamingHttpResponse(svir.relay(stream, keepalive=15), content_type="text/event-stream")


django.conf.settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "127.0.0.1"])
urlpatterns = [django.urls.path("chat", chat)]
app = django.core.wsgi.get_wsgi_application()
