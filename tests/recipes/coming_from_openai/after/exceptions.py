import svir

client = svir.Client(retry=svir.Retry(attempts=1))
try:
    answer = client.complete(model="gpt-5-mini", messages=[{"role": "user", "content": "Say hello."}])
    print(answer.text)
except svir.ContextOverflowError:
    print("shorten it")
except svir.RejectedError as error:
    print(f"refused: {error.message}")
except svir.AuthenticationError:
    print("look at the key")
except svir.RateLimitError as error:
    print("try again in", round(error.retry_after), "s")
except svir.ServerError as error:
    print("the server failed:", error.status)
except (svir.ConnectError, svir.TimedOut):
    print("no answer")
