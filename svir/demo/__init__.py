"""What `svir demo` runs and measures: a real model in a process of its own, and photos on their way to another.

In:   a model, when one is installed, and generated photos.
Out:  a `Report`: the rows of a table, and which checks failed. The command itself is `svir/cli/demo.py`, which prints
      what is going on and shows the table.

Files, in the order in which to read them:

checks.py     the measurements, and the checks that they must pass
child.py      processes, each of which runs one of the modules below and ends with its parent
llama.py      one of them: llama.cpp's own server around a small model
photos.py     photos that both ends can generate, so that the receiver knows what to expect
sender.py     one of them: sends the photos through a client, and measures time and memory
receiver.py   one of them: a server that compares every byte, independently of how the client reads and encodes
cleanup.py    removes what the demo made, however it ends

It stands on `svir` and `svir.testing`. Rules: proc_pid_status(5) for the memory of a process.
"""
