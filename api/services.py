"""What the routes of one server work with: handed to each handler, never looked up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from api.http.authentication import Authenticator
from api.http.body_budget import BodyBudget
from api.metrics.registry import Metrics
from api.streaming.open_responses import OpenResponses
from eventstore.event_store import EventStore
from eventstore.settings import Settings
from projections.read_models import ReadModels


@dataclass(frozen=True, slots=True)
class Services:
    """One of each. `live` holds what stays open long, and is cut when `stopping` is set."""

    store: EventStore
    read_models: ReadModels
    settings: Settings
    door: Authenticator
    metrics: Metrics = field(default_factory=Metrics)
    live: OpenResponses = field(default_factory=OpenResponses)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    budget: BodyBudget = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", BodyBudget(self.settings.body_bytes))  # frozen from here on
        self.metrics.watch_bodies(self.budget)

    def stop(self) -> None:
        """Cut what is open, and let nothing that stays open begin."""
        self.stopping.set()
        self.live.cut()
