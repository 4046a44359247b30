// A migration that an installation may have applied is never edited, because that installation
// would refuse its new checksum.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const listed = readFileSync("migrations/SHA256SUMS", "utf8")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => line.split("  ") as [string, string]);

test("no listed migration has changed, comments included; a change is a new file", () => {
  const changed = listed
    .filter(
      ([sum, file]) =>
        createHash("sha256")
          .update(readFileSync(`migrations/${file}`))
          .digest("hex") !== sum,
    )
    .map(([, file]) => file);
  expect(changed, "restore these files; migrations/SHA256SUMS lists what is released").toEqual([]);
  expect(listed.length).toBeGreaterThan(40);
});
