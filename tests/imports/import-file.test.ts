// A file on its way into object storage: the memory that it may use, however it is sent.
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { piecesOf } from "../../infra/http/read-body.ts";
import { storeFile } from "../../modules/intake/imports/import-file.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";

const PIECES = 100_000;
const store = (pieceBytes: number) => {
  const piece = Buffer.alloc(pieceBytes, "x");
  const body = Readable.from(Array.from({ length: PIECES }, () => piece));
  return storeFile(inMemoryObjects(), "imp_x", piecesOf(body), false);
};

test("a file in pieces of one byte is refused, for each costs an object; one in lines is stored", async () => {
  await expect(store(1)).rejects.toThrow("too small pieces");
  expect(await store(40)).toMatchObject({ bytes: 40 * PIECES, parts: 1 });
});

test("a file that is refused while it comes can still be answered", async () => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const body = new Readable({ read: () => undefined });
  body.push(bomb);
  await expect(storeFile(inMemoryObjects(), "imp_x", piecesOf(body), true)).rejects.toMatchObject({
    code: "file_too_large",
  });
  expect(body.destroyed).toBe(false);
});
