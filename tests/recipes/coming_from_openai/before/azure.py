import os

from openai import AzureOpenAI

client = AzureOpenAI(
    azure_endpoint=os.environ["AZURE_OPENAI_ENDPOINT"],
    api_key=os.environ["AZURE_OPENAI_API_KEY"],
    api_version="2024-10-21",
)
answer = client.chat.completions.create(
    model="my-deployment",
    messages=[{"role": "user", "content": "Say hello."}],
)
print(answer.choices[0].message.content)
