"""Apache Burr: a state machine of actions over an immutable ``State``."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from bench.adapters.base import Adapter, db_bytes


class Burr(Adapter):
    name = "burr"
    dist = "apache-burr"
    module = "burr.core"
    checkpoint_modes = ("memory", "sqlite", "sqlite-async")
    notes = {
        "W1": "event = state fields; application built once per run",
        "W2": "MapStates: one sub-application per event, unbounded asyncio.gather "
        "(no num_workers; bounded here by a semaphore in the action)",
        "W4": "halt_before an action that needs an input; the Application object is kept",
        "W5c": "a whole-state row per step",
    }

    def setup(self, scratch: Path) -> None:
        from burr.core import ApplicationBuilder, State, action, default, expr
        from burr.core.action import create_action
        from burr.core.parallelism import MapStates
        from burr.core.persistence import SQLitePersister

        self.scratch, self._files = scratch, 0
        self.State, self.Builder, self.SQLite = State, ApplicationBuilder, SQLitePersister

        @action(reads=["n", "left"], writes=["n", "left"])
        async def loop(state: State) -> State:
            return state.update(n=state["n"] + 1, left=state["left"] - 1)

        @action(reads=["n", "left"], writes=["n", "left"])
        def loop_sync(state: State) -> State:
            return state.update(n=state["n"] + 1, left=state["left"] - 1)

        @action(reads=[], writes=[])
        async def end(state: State) -> State:
            return state

        @action(reads=["obj", "left"], writes=["obj", "left"])
        async def carry(state: State) -> State:
            return state.update(obj=state["obj"], left=state["left"] - 1)

        def looping(body: Any) -> Any:
            return (
                ApplicationBuilder()
                .with_actions(loop=body, end=end)
                .with_transitions(("loop", "loop", expr("left > 0")), ("loop", "end", default))
                .with_entrypoint("loop")
            )

        self.chain_app = lambda: looping(loop)
        self.sync_chain_app = lambda: looping(loop_sync)
        self.payload_app = lambda: looping(carry)

        gate = asyncio.Semaphore(4)

        @action(reads=["i"], writes=["done"])
        async def work(state: State) -> State:
            async with gate:
                return state.update(done=state["i"])

        class FanOut(MapStates):
            def action(self, state: State, inputs: dict[str, Any]) -> Any:
                return create_action(work, "work")

            async def states(self, state: State, context: Any, inputs: dict[str, Any]) -> Any:
                for i in range(state["m"]):
                    yield state.update(i=i)

            async def reduce(self, state: State, states: Any) -> State:
                total = 0
                async for s in states:
                    total += s["done"]
                return state.update(total=total)

            def is_async(self) -> bool:
                return True

            @property
            def reads(self) -> list[str]:
                return ["m"]

            @property
            def writes(self) -> list[str]:
                return ["total"]

        self.fan_app = lambda: ApplicationBuilder().with_actions(fan=FanOut()).with_entrypoint("fan")

        @action(reads=["n"], writes=["n"])
        async def one(state: State) -> State:
            return state.update(n=state["n"] + 1)

        names = [f"s{i}" for i in range(5)]
        self.five_app = lambda: (
            ApplicationBuilder()
            .with_actions(**dict.fromkeys(names, one))
            .with_transitions(*itertools.pairwise(names))
            .with_entrypoint("s0")
            .with_state(n=0)
        )

        @action(reads=[], writes=["asked"])
        async def ask(state: State) -> State:
            return state.update(asked=True)

        @action(reads=[], writes=["reply"])
        async def answer(state: State, reply: int) -> State:
            return state.update(reply=reply)

        self.ask_app = lambda: (
            ApplicationBuilder()
            .with_actions(ask=ask, answer=answer)
            .with_transitions(("ask", "answer"))
            .with_entrypoint("ask")
        )

    async def chain(self, n: int) -> int:
        app = await self.chain_app().with_state(n=0, left=n).abuild()
        _, _, state = await app.arun(halt_after=["end"])
        return state["n"]

    async def fan_out(self, m: int) -> int:
        app = await self.fan_app().with_state(m=m).abuild()
        _, _, state = await app.arun(halt_after=["fan"])
        return state["total"]

    async def small_run(self) -> int:
        app = await self.five_app().abuild()
        _, _, state = await app.arun(halt_after=["s4"])
        return state["n"]

    async def suspend(self, k: int) -> Any:
        async def one() -> Any:
            app = await self.ask_app().abuild()
            await app.arun(halt_before=["answer"])
            return app

        return await asyncio.gather(*[one() for _ in range(k)])

    async def resume(self, token: Any) -> int:
        outs = await asyncio.gather(*[app.arun(halt_after=["answer"], inputs={"reply": 1}) for app in token])
        return sum(state["reply"] for _, _, state in outs)

    async def snapshot_prepare(self, m: int) -> Any:
        from bench.events import Item

        return self.State({"events": [Item(i=i) for i in range(m)]})

    async def snapshot_dump(self, token: Any) -> str:
        import burr.integrations.serde.pydantic  # noqa: F401  (registers the pydantic serde)

        return json.dumps(token.serialize())

    async def snapshot_load(self, data: bytes | str) -> int:
        return len(self.State.deserialize(json.loads(data))["events"])

    async def checkpointed_chain(self, n: int, mode: str) -> int:
        self._files += 1
        path = self.scratch / f"burr{self._files}.db"
        if mode == "sqlite-async":
            from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister

            persister: Any = await AsyncSQLitePersister.from_values(str(path), "state")
            await persister.initialize()
        elif mode == "sqlite":
            persister = self.SQLite.from_values(str(path), "state")
            persister.initialize()
        else:
            from burr.core.persistence import InMemoryPersister

            persister = InMemoryPersister()
        sync = mode != "sqlite-async"
        builder = (self.sync_chain_app if sync else self.chain_app)()
        builder = builder.with_state(n=0, left=n).with_state_persister(persister)
        if sync:
            # "end" is async: stop before it so that the run can be synchronous.
            _, _, state = builder.build().run(halt_before=["end"])
            size = db_bytes(path)
        else:
            app = await builder.abuild()
            _, _, state = await app.arun(halt_before=["end"])
            size = db_bytes(path)
            await persister.cleanup()
        assert state["n"] == n
        return size

    async def payload(self, obj: Any, n: int) -> Any:
        app = await self.payload_app().with_state(obj=obj, left=n).abuild()
        _, _, state = await app.arun(halt_after=["end"])
        return state["obj"]
