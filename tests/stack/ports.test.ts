// Ports of stacks that start at the same time: each later listens on the port that it chose.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openHome } from "../../infra/embedded/home.ts";
import { choosePorts } from "../../infra/embedded/ports.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-ports-"));
const open: Server[] = [];
afterAll(() => {
  for (const server of open) server.close();
  rmSync(folder, { recursive: true, force: true });
});
const homeOf = (name: string) => openHome(join(folder, name));
const namesOf = (count: number): readonly string[] => Array.from({ length: count }, (_, n) => `app-${n}`);
const listenOn = (port: number): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    open.push(server.listen(port, "127.0.0.1", () => resolve(port)));
  });

test("no two of forty stacks that start at once are given the same port, nor one that is guarded", async () => {
  const choices = await Promise.all(
    Array.from({ length: 40 }, (_, n) => choosePorts(homeOf(`at-once-${n}`), namesOf(25))),
  );
  const ports = choices.flatMap(({ chosen }) => chosen.map(({ port }) => port));
  expect(new Set(ports).size).toBe(40 * 25);
  await Promise.all(ports.map(listenOn));
  for (const { release } of choices) release();
});

test("a second start finds the ports of the first, but for one on which another program listens", async () => {
  const home = homeOf("twice");
  const first = await choosePorts(home, namesOf(60));
  first.release();
  await listenOn(first.chosen[7]!.port);
  const second = await choosePorts(home, namesOf(60));
  second.release();
  const moved = second.chosen.filter(({ movedFrom }) => movedFrom !== undefined);
  expect(moved).toEqual([{ name: "app-7", port: expect.any(Number), movedFrom: first.chosen[7]!.port }]);
  expect(new Set(second.chosen.map(({ port }) => port)).size).toBe(60);
  const others = ({ name }: { readonly name: string }): boolean => name !== "app-7";
  expect(second.chosen.filter(others)).toEqual(first.chosen.filter(others));
});

test("a second start leaves a block from which another stack is choosing", async () => {
  const home = homeOf("again");
  const first = await choosePorts(home, namesOf(3));
  first.release();
  const { port } = first.chosen[0]!;
  await listenOn(port - (port % 50));
  const second = await choosePorts(home, namesOf(3));
  second.release();
  expect(second.chosen.map(({ movedFrom }) => movedFrom)).toEqual(first.chosen.map(({ port: before }) => before));
});

test("nor does another stack choose from the block of one that starts again", async () => {
  const home = homeOf("guarded");
  (await choosePorts(home, namesOf(3))).release();
  const again = await choosePorts(home, namesOf(3));
  const port = again.chosen[0]!.port;
  await expect(listenOn(port - (port % 50))).rejects.toThrow("EADDRINUSE");
  again.release();
});
