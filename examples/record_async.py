"""Record a .NET process, and do something else meanwhile: python record_async.py PID."""

import asyncio
import sys

import dotnetdiag as dd


async def record(pid: int) -> int:
    client = dd.AsyncClient(pid)
    async with await client.trace("Microsoft-Windows-DotNETRuntime:GC:Informational", duration="1s") as session:
        return await session.save("app.nettrace")


async def main(pid: int) -> None:
    recording = asyncio.create_task(record(pid))
    while not recording.done():
        print("meanwhile …")
        await asyncio.sleep(0.4)
    print(await recording > 0, "is whole:", dd.open("app.nettrace").complete)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
