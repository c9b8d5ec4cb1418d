"""An application on an event loop of its own, called without a socket; a real server starts when one is wanted."""

import asyncio
import threading

import httpx2 as httpx
import uvicorn


class Application(httpx.BaseTransport):
    """A transport for clients of this process. Its requests are cut from their connection: nothing is streamed."""

    def __init__(self, app, **server_options):
        self._direct = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._app, self._options, self.server = app, server_options, None
        self._serving = threading.Lock()  # several threads may want the server first
        self._loop = uvicorn.Config(app).get_loop_factory()()  # the kind that a server has
        self._over = asyncio.Event()
        self.thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.thread.start()
        begun = threading.Event()
        self._life = asyncio.run_coroutine_threadsafe(self._live(begun), self._loop)
        assert begun.wait(60), "the application did not start"

    async def _live(self, begun):
        """The application's lifespan, from its start to `close`."""
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive():
            if begun.is_set():
                await self._over.wait()
            return next(messages)

        async def send(message):
            assert message["type"] != "lifespan.startup.failed", message
            begun.set()

        await self._app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)

    def run(self, coroutine):
        """What a coroutine returns, run where the application runs."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def handle_request(self, request):
        request.read()
        return self.run(self._answer(request))

    async def _answer(self, request):
        answer = await self._direct.handle_async_request(request)
        body = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(body))

    def serve(self):
        """The port of a real server of the same application, started at the first call."""
        with self._serving:
            if self.server is None:
                options = {"host": "127.0.0.1", "port": 0, "log_config": None, "access_log": False, "lifespan": "off"}
                self.server = uvicorn.Server(uvicorn.Config(self._app, **self._options | options))
                self._served = asyncio.run_coroutine_threadsafe(self.server.serve(), self._loop)
                begun = threading.Event()
                while not self.server.started:
                    begun.wait(0.002)
        return self.server.servers[0].sockets[0].getsockname()[1]

    def end(self):
        """Stop serving, end the lifespan, stop the loop."""
        if self.server is not None:
            self.server.should_exit = True
            self._served.result()
        self._loop.call_soon_threadsafe(self._over.set)
        self._life.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.thread.join()
        self._loop.close()
