import svir

client = svir.Client()  # OPENAI_BASE_URL, OPENAI_API_KEY
stream = client.stream(model="gpt-5-mini", messages=[{"role": "user", "content": "Say hello."}])
for text in stream.texts():
    print(text, end="", flush=True)
print(f"\n{stream.completion.usage.total_tokens} tokens")
