"""What can go wrong, and what came before it."""

import svir

client = svir.Client(timeout=svir.Timeout(first=60, idle=10), retry=svir.Retry(attempts=2))
try:
    answer = client.complete("What is 2 + 1?", max_tokens=100, top_k=20, extra={"my_field": 1})
    print(answer.text, answer.repairs)
except svir.ContextOverflowError:
    print("the prompt is too long")
except svir.AuthenticationError as error:
    print("look at the key:", error.message)
except svir.RateLimitError as error:
    print("tried twice; the server asks for", error.retry_after, "seconds")
except svir.RejectedError as error:
    print("the server does not take", error.param, "because", error.message)
except (svir.TimedOut, svir.StreamError) as error:
    print("it broke after:", error.completion and error.completion.text)
except svir.SvirError as error:
    print("no answer:", error, "- try again" if error.retryable else "")
