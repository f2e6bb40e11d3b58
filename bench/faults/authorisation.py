"""How long it takes to know whose request it is, with 10,000 keys of 1,000 tenants.

python -m bench.faults.authorisation

A request's authorisation is timed as the server does it: verifying the key in SQL and counting the
request against its limits, on a thread of the event loop's pool.
"""

import asyncio
import hashlib
import random
import statistics
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from anyio import to_thread
from sqlalchemy import insert

from app.http.auth import admit
from bench.faults.program import program
from common.errors import Unauthorized
from storage.config import StorageConfig
from storage.db.tables import ApiKey, Tenant, TenantLimit
from storage.quotas.resources import Resource
from storage.storage import Storage, open_storage
from training.record import circumstances, drawn

TENANTS, KEYS, REQUESTS = 1_000, 10_000, 5_000


def measure(options: Any) -> dict[str, Any]:
    """Time requests with keys drawn at random, and with keys that nobody has."""
    num_requests = 500 if options.smoke else REQUESTS
    with (
        TemporaryDirectory(prefix="lectern-keys-") as folder,
        closing(open_storage(StorageConfig(Path(folder)))) as storage,
    ):
        keys = _make_keys(storage)
        known = asyncio.run(_time(storage, random.choices(keys, k=num_requests)))
        unknown = [f"lk_{uuid4().hex[:12]}_{'b' * 64}" for _ in range(num_requests)]
        refused = asyncio.run(_time(storage, unknown))
    return {
        "benchmark": "authorisation of a request, milliseconds",
        **circumstances("cpu", drawn("10,000 keys of 1,000 tenants")),
        "tenants": TENANTS,
        "keys": KEYS,
        "requests": num_requests,
        "known": _summary([wall for wall, _ in known]),
        "unknown": _summary([wall for wall, _ in refused]),
        "known_processor_time": _summary([used for _, used in known]),
        "unknown_processor_time": _summary([used for _, used in refused]),
    }


def _make_keys(storage: Storage) -> list[str]:
    """Make tenants, half of them with a limit of requests, and their keys; return the keys."""
    now = datetime.now(UTC)
    tenants = [{"id": uuid4(), "name": f"tenant {n}", "created_at": now} for n in range(TENANTS)]
    texts = [f"lk_{number:012x}_{uuid4().hex * 2}" for number in range(KEYS)]
    keys = [
        {
            "id": uuid4(),
            "tenant_id": tenants[number % TENANTS]["id"],
            "name": "key",
            "prefix": f"{number:012x}",
            "key_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "created_at": now,
        }
        for number, text in enumerate(texts)
    ]
    limits = [
        {"tenant_id": tenant["id"], "resource": Resource.REQUESTS, "amount": 6_000}
        for tenant in tenants[::2]
    ]
    with storage.db.session() as session:
        for table, rows in ((Tenant, tenants), (ApiKey, keys), (TenantLimit, limits)):
            session.execute(insert(table), rows)
    return texts


async def _time(storage: Storage, keys: list[str]) -> list[tuple[float, float]]:
    """Return the milliseconds that passed, and those that this process computed, for each key."""
    samples = []
    for key in keys:
        started_s, used_s = time.perf_counter(), time.process_time()
        with suppress(Unauthorized):
            await to_thread.run_sync(admit, storage, key)
        wall_s, used_s = time.perf_counter() - started_s, time.process_time() - used_s
        samples.append((1000 * wall_s, 1000 * used_s))
    return samples


def _summary(samples: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return {"p50": cuts[49], "p80": cuts[79], "p99": cuts[98], "max": max(samples)}


main = program("faults_authorisation", __doc__, measure)


if __name__ == "__main__":
    main()
