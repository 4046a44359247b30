// The actor in the audit: always the account of this machine, with the given name beside it.
import { userInfo } from "node:os";
import { expect, test } from "vitest";
import { actorOf } from "../../modules/base/operations/operations.ts";

const account = `${userInfo().username}@cli`;

test("without a name it is the account of this machine", () => expect(actorOf()).toBe(account));

test("a name that is given stands beside the account, and never in its place", () =>
  expect(actorOf("ana@example.com")).toBe(`ana@example.com (${account})`));

test.each([
  "ana",
  "",
  "ana@example.com (root@cli)",
  "a@b\n2026 root@cli",
  "a@b\u001b[2J",
  "a @b",
  `${"a".repeat(65)}@b`,
])("%j is no name", (given) => expect(() => actorOf(given)).toThrow("--actor: must be an e-mail address"));
