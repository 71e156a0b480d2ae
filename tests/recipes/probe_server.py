"""What a server and a model really do, as a table."""

import svir
from svir import probe

with svir.Client() as client:
    for finding in probe.run(client):
        print(finding.name, finding.value, finding.evidence, sep="\t")
