"""A conversation: each answer goes back as it came, its reasoning under the key that the server used."""

import svir

client = svir.Client()
messages = [svir.system("Be brief."), svir.user("What is 2 + 1?")]
for question in ("In one word?", "And in French?"):
    answer = client.complete(messages, reasoning_effort="low")
    print(answer.text)
    messages += [answer.message, svir.user(question)]
print(client.complete(messages).text)
