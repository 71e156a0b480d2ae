import openai

client = openai.OpenAI(max_retries=0)
try:
    answer = client.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "Say hello."}])
    print(answer.choices[0].message.content)
except openai.BadRequestError as error:
    print("shorten it" if error.code == "context_length_exceeded" else f"refused: {error.body['message']}")
except openai.AuthenticationError:
    print("look at the key")
except openai.RateLimitError as error:
    print("try again in", error.response.headers["retry-after"], "s")
except openai.InternalServerError as error:
    print("the server failed:", error.status_code)
except openai.APIConnectionError:  # openai.APITimeoutError among them
    print("no answer")
