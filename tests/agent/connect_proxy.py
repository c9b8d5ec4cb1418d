"""A CONNECT proxy as a process of its own: `python -m tests.agent.connect_proxy TARGET_PORT [USER:PASSWORD]`.

It alone knows where the name that clients ask for is: it connects every request to TARGET_PORT of this machine. The
first line that it prints is its own port; then a line for every request, with what was asked and what it answered.
"""

import asyncio
import base64
import sys


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(target, password):
    wanted = "basic " + base64.b64encode(password.encode()).decode() if password else None

    async def serve(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        method, asked, _ = head[0].split(" ")
        given = fields.get("proxy-authorization", "")
        allowed = wanted is None or (given[:6].lower() + given[6:]) == wanted
        status = "200 Connection established" if allowed else "407 Proxy Authentication Required"
        if method != "CONNECT":
            status = "405 Method Not Allowed"
        print(method, asked, status[:3], flush=True)
        ending = "" if status.startswith("200") else "Content-Length: 0\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{ending}\r\n".encode())
        await writer.drain()
        if not status.startswith("200"):
            writer.close()
            return
        back, forth = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, forth), pump(back, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
