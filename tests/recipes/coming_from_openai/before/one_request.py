from openai import OpenAI

client = OpenAI()
patient = client.with_options(timeout=600, max_retries=5, default_headers={"X-Team": "search"})
response = patient.chat.completions.with_raw_response.create(
    model="gpt-5-mini",
    messages=[{"role": "user", "content": "Say hello."}],
    extra_body={"cache_salt": "a"},
)
print(response.status_code, response.headers["x-request-id"])
print(response.parse().choices[0].message.content)
