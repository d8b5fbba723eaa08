"""Runs asynchronous clients for checks, which run in threads."""

import asyncio
import threading

import checks

END = object()


class Loop:
    """An event loop in its own thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(2 * checks.PATIENCE)

    def iterate(self, chunks):
        """Yield the values of an asynchronous iterator."""
        async def step():
            async for chunk in chunks:
                return chunk
            return END

        while (chunk := self.run(step())) is not END:
            yield chunk
