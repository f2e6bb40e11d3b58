"""The quotas of tenants and keys: what a request may use is taken here, or refused."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy.orm import Session

from common.errors import QuotaExceeded, RateLimited
from common.format import format_bytes, format_count
from storage.db.database import Database
from storage.db.records import ApiKeyRecord
from storage.quotas.counters import Counter, SqlCounter, Window
from storage.quotas.limits import Limit, LimitBook
from storage.quotas.places import QuestionPlaces, lock_tenant
from storage.quotas.resources import STOCKS, WINDOWS, Resource
from storage.quotas.stocks import count_stocks
from storage.quotas.windows import Windows, WindowSpent, WindowState

if TYPE_CHECKING:  # for annotations alone
    from storage.quotas.redis_counter import RedisCounter

NAMES = {
    Resource.BYTES: "stored",
    Resource.DOCUMENTS: "documents",
    Resource.QUEUED_JOBS: "documents that wait to be read",
    Resource.QUESTIONS: "questions under way",
    Resource.TOKENS: "tokens a day",
    Resource.REQUESTS: "requests a minute",
}
QUEUE_RETRY_S = 30.0


@dataclass(frozen=True)
class ResourceUse:
    """How much of a resource a tenant and a key have used, and may use.

    Attributes:
        limit, key_limit: None for any amount.
        used, key_used: None for what is only counted where it is limited.
        reset_s: seconds until the present minute or day ends; None for other resources.
    """

    resource: Resource
    limit: int | None
    used: int | None
    key_limit: int | None = None
    key_used: int | None = None
    reset_s: float | None = None


@dataclass
class QuestionGrant:
    """What was taken for a question, until it ends.

    Attributes:
        windows: the tenant's and the key's day, and the tokens that were taken ahead from each.
        place_id: its place among the questions under way; None where they are not limited.
        state: how the tighter of the limits of tokens stands; None if there is none.
    """

    windows: dict[Window, int]
    place_id: UUID | None
    state: WindowState | None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _tokens: int | None = 0
    _is_settled: bool = False

    def begin(self) -> None:
        """Note that the model works on it: if it is cut off, all that was taken counts."""
        self._tokens = None

    def end(self, num_tokens: int) -> None:
        """Note how many tokens question and answer had."""
        self._tokens = num_tokens

    def settle(self) -> dict[Window, int]:
        """Return by how much the counts of windows must change, once."""
        with self._lock:
            if self._is_settled:
                return {}
            self._is_settled = True
        tokens = self._tokens
        changes = {
            window: (tokens if tokens is not None else taken) - taken
            for window, taken in self.windows.items()
        }
        return {window: change for window, change in changes.items() if change}


class Quotas:
    """What tenants and keys may use, for all processes over one database.

    Args:
        redis_url: of the server that counts requests; empty to count them in SQL.
        process: name of this process.
    """

    def __init__(self, db: Database, redis_url: str, process: str) -> None:
        self._db = db
        self._sql = SqlCounter(db)
        self._redis = _open_redis(redis_url, self._sql) if redis_url else None
        self._counter: Counter = self._redis or self._sql
        self.limits = LimitBook(db)
        self.windows = Windows(self._counter)
        self.places = QuestionPlaces(db, process)

    def take_request(self, caller: ApiKeyRecord) -> WindowState | None:
        """Count a request.

        Returns: how the tighter of the limits stands; None if there is none.
        Raises: WindowSpent.
        """
        limits = self.limits.of(caller).get(Resource.REQUESTS, ())
        return self._take(limits, Resource.REQUESTS, 1) if limits else None

    def check_upload(self, caller: ApiKeyRecord, num_bytes: int) -> None:
        """Return if a file may be uploaded, as far as can be told before it is received.

        Raises: QuotaExceeded.
        """
        if any(resource in self.limits.of(caller) for resource in STOCKS):
            with self._db.reading() as session:
                self._check_stocks(session, caller, _of_document(num_bytes))

    def admit_document(self, session: Session, caller: ApiKeyRecord, num_bytes: int) -> None:
        """Return if a document may be added; until the transaction ends nobody else adds one.

        Raises: QuotaExceeded.
        """
        if any(resource in self.limits.of(caller) for resource in STOCKS):
            lock_tenant(session, caller.tenant_id)
            self._check_stocks(session, caller, _of_document(num_bytes))

    def admit_reading(self, session: Session, caller: ApiKeyRecord) -> None:
        """Return if a document that is stored may be queued; as `admit_document` for the rest.

        Raises: QuotaExceeded.
        """
        if Resource.QUEUED_JOBS in self.limits.of(caller):
            lock_tenant(session, caller.tenant_id)
            self._check_stocks(session, caller, {Resource.QUEUED_JOBS: 1})

    def take_question(self, caller: ApiKeyRecord, num_tokens: int, most_s: float) -> QuestionGrant:
        """Take a place and tokens for a question; `settle` must be called when it has ended.

        Args:
            num_tokens: the most that question and answer may have.
            most_s: seconds after which the question must have ended.
        Raises: RateLimited; WindowSpent, which is one, for tokens.
        """
        limits = self.limits.of(caller)
        place = self._take_place(caller, limits.get(Resource.QUESTIONS, ()), most_s)
        limited = limits.get(Resource.TOKENS, ())
        try:
            state = self._take(limited, Resource.TOKENS, num_tokens) if limited else None
        except BaseException:
            if place is not None:
                self.places.give_back(place)
            raise
        taken = {limit.owner_id: num_tokens for limit in limited}
        windows = {
            self.windows.window(owner_id, Resource.TOKENS): taken.get(owner_id, 0)
            for owner_id in (caller.tenant_id, caller.id)
        }
        return QuestionGrant(windows, place, state)

    def settle(self, grant: QuestionGrant) -> None:
        """Count what a question has really used, and free its place."""
        for window, change in grant.settle().items():
            self._counter.add(window, change)
        if grant.place_id is not None:
            self.places.give_back(grant.place_id)

    def use(self, tenant_id: UUID, caller: ApiKeyRecord | None = None) -> tuple[ResourceUse, ...]:
        """Return what a tenant, and a key if one is given, may use and have used."""
        return tuple(self._use(tenant_id, caller))

    def prune(self, now_s: float) -> None:
        """Remove the counts of past days, and places that are free."""
        self._sql.prune(now_s)
        self.places.prune()

    def close(self) -> None:
        """Close all connections."""
        if self._redis is not None:
            self._redis.close()

    def _take(self, limits: tuple[Limit, ...], resource: Resource, amount: int) -> WindowState:
        """Take an amount from the windows of all limits, or from none of them.

        Raises: WindowSpent.
        """
        states: list[WindowState] = []
        for number, limit in enumerate(limits):
            state = self.windows.take(limit.owner_id, resource, limit.amount, amount)
            states.append(state)
            if state.is_granted:
                continue
            for earlier in limits[:number]:
                self.windows.give_back(earlier.owner_id, resource, amount)
            raise WindowSpent(
                f"{_whose(limit)} may use {format_count(limit.amount)} {NAMES[resource]}; "
                f"{format_count(state.remaining)} are left.",
                state,
            )
        return min(states, key=lambda state: state.remaining)

    def _take_place(
        self, caller: ApiKeyRecord, limits: tuple[Limit, ...], most_s: float
    ) -> UUID | None:
        if not limits:
            return None
        place = self.places.take(caller, limits, most_s)
        if isinstance(place, UUID):
            return place
        raise RateLimited(f"{_whose(place)} may have {place.amount} {NAMES[Resource.QUESTIONS]}.")

    def _check_stocks(
        self, session: Session, caller: ApiKeyRecord, more: Mapping[Resource, int]
    ) -> None:
        limits = self.limits.of(caller)
        for resource in more:
            for limit in limits.get(resource, ()):
                uploader = caller.prefix if limit.is_of_key else None
                counted = count_stocks(session, (resource,), caller.tenant_id, uploader)
                if counted[resource] + more[resource] > limit.amount:
                    raise QuotaExceeded(
                        f"{_whose(limit)} may have {_amount(resource, limit.amount)} "
                        f"{NAMES[resource]}, and has {_amount(resource, counted[resource])}.",
                        retry_after_s=QUEUE_RETRY_S if resource is Resource.QUEUED_JOBS else None,
                    )

    def _use(self, tenant_id: UUID, caller: ApiKeyRecord | None) -> Iterator[ResourceUse]:
        of_tenant = self.limits.of_tenant(tenant_id)
        of_key = {} if caller is None else self.limits.of_key(caller.id)
        with self._db.reading() as session:
            stocks = count_stocks(session, STOCKS, tenant_id)
            own = {} if caller is None else count_stocks(session, STOCKS, tenant_id, caller.prefix)
        for resource in Resource:
            limit, key_limit = of_tenant.get(resource), of_key.get(resource)
            used, key_used, reset_s = stocks.get(resource), own.get(resource), None
            if resource in WINDOWS:
                is_counted = resource is Resource.TOKENS
                counted, reset_s = self.windows.used(tenant_id, resource)
                used = counted if is_counted or limit is not None else None
                if caller is not None and (is_counted or key_limit is not None):
                    key_used, _ = self.windows.used(caller.id, resource)
            elif resource is Resource.QUESTIONS and (limit is not None or key_limit is not None):
                used = self.places.count(tenant_id)
                if caller is not None:
                    key_used = self.places.count(caller.id, is_of_key=True)
            yield ResourceUse(resource, limit, used, key_limit, key_used, reset_s)


def _of_document(num_bytes: int) -> Mapping[Resource, int]:
    """What one more document adds to each stock."""
    return {Resource.BYTES: num_bytes, Resource.DOCUMENTS: 1, Resource.QUEUED_JOBS: 1}


def _whose(limit: Limit) -> str:
    return "This API key" if limit.is_of_key else "This key's tenant"


def _amount(resource: Resource, amount: int) -> str:
    return format_bytes(amount) if resource is Resource.BYTES else format_count(amount)


def _open_redis(url: str, sql: SqlCounter) -> "RedisCounter":
    """Count in Redis, whose library is imported where there is one alone."""
    from storage.quotas.redis_counter import RedisCounter

    return RedisCounter(url, sql)
