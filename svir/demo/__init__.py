"""What `svir demo` runs and measures: a real model in a process of its own, and photos on their way to another.

In:   nothing but this machine: a model when one is installed, photos that are made on the spot.
Out:  a `Report`: the rows of a table, and which checks failed. The command itself is `svir/cli/demo.py`, which says
      what is going on and shows the table.

Files, in the order in which to read them:

checks.py     what was measured, and what must hold of it
child.py      processes, each of which runs one of the modules below and ends with its parent
llama.py      one of them: llama.cpp's own server around a small model
photos.py     photos that both ends can make, so that the receiver knows what must come
sender.py     one of them: sends the photos through a client, and measures time and memory
receiver.py   one of them: a server that compares every byte, and knows nothing of how the client reads or encodes
cleanup.py    nothing is left behind, however the demo ends

It stands on `svir` and `svir.testing`. Rules: proc_pid_status(5) for the memory of a process.
"""
