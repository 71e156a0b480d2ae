"""Many requests on many machines; each worker process has a client of its own, and reads the photos where it runs."""

from dask.distributed import Client, LocalCluster

import svir


def main() -> None:
    # On more than one machine: `with Client("tcp://scheduler:8786") as dask:`, and nothing else changes.
    cluster = LocalCluster(n_workers=2, threads_per_worker=8, dashboard_address="127.0.0.1:0")
    with cluster, Client(cluster) as dask:
        questions = (f"What is {n} + 1?" for n in range(1, 100))
        for row in svir.batch(svir.Client(), questions, executor=dask.get_executor(), concurrency=16):
            print(row.custom_id, row.completion.text if row.completion else row.error)


if __name__ == "__main__":  # the worker processes import this file too
    main()
