import os

import svir

client = svir.Client(
    os.environ["AZURE_OPENAI_ENDPOINT"] + "/openai/deployments/my-deployment",
    headers={"api-key": os.environ["AZURE_OPENAI_API_KEY"]},
    query={"api-version": "2024-10-21"},
)
answer = client.complete(messages=[{"role": "user", "content": "Say hello."}])
print(answer.text)
