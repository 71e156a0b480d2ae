import svir

client = svir.Client()
patient = client.replace(
    timeout=svir.Timeout(first=600, idle=600), retry=svir.Retry(attempts=6), headers={"X-Team": "search"}
)
stream = patient.stream(
    model="gpt-5-mini",
    messages=[{"role": "user", "content": "Say hello."}],
    extra={"cache_salt": "a"},
)
print(stream.status, stream.headers["x-request-id"])
print("".join(stream.texts()))
