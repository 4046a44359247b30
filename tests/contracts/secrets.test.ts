// The secrets of the installation in Postgres: fingerprints, one pepper for ever, and clients'
// secrets that are sealed again without losing one.
import { createHmac, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { transaction } from "../../infra/postgres/sql.ts";
import { type Keyring, keyringOf } from "../../infra/runtime/keyring.ts";
import {
  clientSecretOf,
  makeVaultWithin,
  newClientSecret,
  resealClientSecrets,
  saveClientSecret,
  sealedCounts,
} from "../../modules/access/secrets/client-secrets.ts";
import { refuseOtherPepper } from "../../modules/access/secrets/command-secrets.ts";
import {
  fingerprintOf,
  isSilent,
  knownSecrets,
  openInstallationSecrets,
  recordSecrets,
  ruleOut,
} from "../../modules/access/secrets/installation-secrets.ts";
import { rotationFacts, rotationOf } from "../../modules/access/secrets/rotation.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

const secret = () => randomBytes(32).toString("base64");
const [first, second] = [secret(), secret()];
const listed = (text: string): Keyring => keyringOf(text);
const [before, during, after] = [listed(first), listed(`${second},${first}`), listed(`${second},pepper:${first}`)];
const [f1, f2] = [fingerprintOf(first), fingerprintOf(second)];

let database: FreshDatabase;
let pool: ReturnType<FreshDatabase["pool"]>;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool();
});
afterAll(() => database.drop());

describe("the pepper", () => {
  test("is settled by the first process, and every other one is refused and records nothing", async () => {
    await Promise.all(["ingest", "worker", "worker-2"].map((name) => recordSecrets(pool, name, before)));
    await expect(recordSecrets(pool, "new", listed(second))).rejects.toThrow(
      `has the fingerprint ${f2}, and identifiers of this installation are hashed under ${f1}`,
    );
    const known = await knownSecrets(pool);
    expect(known.secrets).toMatchObject([{ fingerprint: f1, is_pepper: true }]);
    expect(known.holders.map(({ instance }) => instance)).toEqual(["ingest", "worker", "worker-2"]);
    await expect(refuseOtherPepper(pool, listed(second))).rejects.toThrow(f1);
    for (const keyring of [before, during, after]) await refuseOtherPepper(pool, keyring);
  });

  test("of two that settle it at once only one stands", async () => {
    const own = await freshDatabase();
    try {
      const both = await Promise.allSettled(
        [first, second].map((one) => recordSecrets(own.pool(), fingerprintOf(one), listed(one))),
      );
      expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
      expect((await knownSecrets(own.pool())).secrets).toHaveLength(1);
    } finally {
      await own.drop();
    }
  });

  test("is given out when Postgres has confirmed it, and a process with another one fails", async () => {
    const log = { warn: () => undefined };
    const open = (keyring: Keyring, fail: (error: Error) => void) =>
      openInstallationSecrets(pool, { instance: "edge", keyring, log, fail, signal: new AbortController().signal });
    const opened = open(during, () => undefined);
    expect(() => opened.pepper()).toThrow("not confirmed here yet");
    await opened.confirmed;
    expect(opened.pepper()).toBe(first);
    const failure = await new Promise<Error>((resolve) => {
      const wrong = open(listed(second), (error) => {
        expect(() => wrong.pepper()).toThrow("not confirmed here yet");
        resolve(error);
      });
    });
    expect(failure.message).toContain(`hashed under ${f1}`);
    for (const value of [first, second]) expect(failure.message).not.toContain(value);
  });
});

describe("the secret of a client", () => {
  const clients: number[] = [];
  const signed = (key: string) => createHmac("sha256", key).update("a lead push").digest("hex");
  const signatures = new Map<number, string>();
  beforeAll(async () => {
    for (const n of [1, 2, 3]) {
      const { idOf } = await writeReference(pool, "test", {
        clients: [{ client_id: -1, slug: `shop-${n}`, name: `Shop ${n}`, attribution: { click_window_days: 30 + n } }],
      });
      clients.push(idOf("clients", -1));
    }
    // A changed client has one more row and is still one client.
    await writeReference(pool, "test", { clients: [{ client_id: clients[0]!, name: "Shop One" }] });
    for (const [n, client] of clients.entries()) {
      const made = newClientSecret();
      signatures.set(client, signed(made));
      if (n < 2) await saveClientSecret(pool, client, made, before);
      // The form in which releases before sealing stored it.
      else await database.adminPool.query("insert into client_secrets values ($1, $2)", [client, made]);
    }
  });
  const signatureOf = async (client: number, keyring: Keyring) =>
    signed((await clientSecretOf(pool, client, keyring))!);

  test("lies sealed in the table", async () => {
    const { rows } = await database.adminPool.query("select hmac_secret from client_secrets order by client_id");
    expect(rows.slice(0, 2).every(({ hmac_secret }) => hmac_secret.startsWith(`sealed:1:${f1}:`))).toBe(true);
    expect(await sealedCounts(pool)).toEqual(
      new Map([
        [f1, 2],
        [null, 1],
      ]),
    );
  });

  test("is sealed again from where a killed run ended, and signs what it signed before", async () => {
    let done = 0;
    const killed = resealClientSecrets(pool, during, (_done, all) => {
      expect(all).toBe(3);
      done += 1;
      if (done === 1) throw new Error("killed");
    });
    await expect(killed).rejects.toThrow("killed");
    expect((await sealedCounts(pool)).get(f2)).toBe(1);
    expect(rotationOf(await rotationFacts(pool, during, Date.now()))).toMatchObject({ step: "restart" });
    for (const client of clients) expect(await signatureOf(client, during)).toBe(signatures.get(client));
    expect(await resealClientSecrets(pool, during)).toBe(2);
    expect(await resealClientSecrets(pool, during)).toBe(0);
    expect(await sealedCounts(pool)).toEqual(new Map([[f2, 3]]));
    for (const client of clients) expect(await signatureOf(client, after)).toBe(signatures.get(client));
  });

  test("counts with its vaults, in what is left to seal as in what was sealed", async () => {
    const [client] = clients;
    for (const vault of ["lead_vault", "recording_vault"] as const)
      await transaction(pool, [client!], (tx) => makeVaultWithin(tx, { clientId: client!, vault }, during), {
        role: "tributary_secrets",
      });
    const back = { ...during, newest: first };
    for (const [keyring, older] of [
      [back, f2],
      [during, f1],
    ] as const) {
      const left = (await sealedCounts(pool)).get(older);
      expect(left).toBe(5);
      expect(await resealClientSecrets(pool, keyring)).toBe(left);
    }
  });

  test("cannot be read by a list that has lost the secret it was sealed under", async () => {
    await expect(clientSecretOf(pool, clients[0]!, before)).rejects.toThrow(
      `client_secrets/${clients[0]} cannot be read: it was sealed under the secret ${f2}`,
    );
    await expect(resealClientSecrets(pool, before)).rejects.toThrow("cannot be read");
  });

  test("waits for the longest window of a client when all processes have the new secret", async () => {
    for (const name of ["ingest", "worker", "worker-2", "edge"]) await recordSecrets(pool, name, during);
    const facts = await rotationFacts(pool, during, Date.now());
    expect(facts.longestWindowDays).toBe(33);
    expect(rotationOf(facts)).toMatchObject({ step: "wait" });
  });

  test("is not made to wait again by later starts with the same newest secret", async () => {
    const begins = async () => new Map((await knownSecrets(pool)).holders.map((one) => [one.instance, one.started_at]));
    const before = await begins();
    await sleep(20);
    await recordSecrets(pool, "edge", during);
    await recordSecrets(pool, "worker", after);
    expect(await begins()).toEqual(before);
    await recordSecrets(pool, "edge", listed(first));
    await recordSecrets(pool, "edge", during);
    expect((await begins()).get("edge")).toBeGreaterThan(before.get("edge")!);
  });

  test("waits no longer for a process that is gone and was ruled out, until that one reports again", async () => {
    const seen = async (name: string) => (await knownSecrets(pool)).holders.find(({ instance }) => instance === name)!;
    await recordSecrets(pool, "gone", before);
    expect(await ruleOut(pool, ["gone", "unknown"])).toEqual([]);
    await database.adminPool.query(
      "update secret_holders set seen_at = seen_at - interval '11 minutes' where instance = 'gone'",
    );
    expect(isSilent(await seen("gone"), Date.now())).toBe(true);
    expect(rotationOf(await rotationFacts(pool, during, Date.now())).step).toBe("restart");
    expect(await ruleOut(pool, ["gone", "edge"])).toEqual(["gone"]);
    expect(await ruleOut(pool, ["gone"])).toEqual([]);
    expect(rotationOf(await rotationFacts(pool, during, Date.now())).step).toBe("wait");
    await recordSecrets(pool, "gone", before);
    expect(await seen("gone")).toMatchObject({ ruled_out_at: null });
    expect(rotationOf(await rotationFacts(pool, during, Date.now())).step).toBe("restart");
  });

  test("is held by a process that reports each minute that it runs", async () => {
    const ended = new AbortController();
    const waits: (() => void)[] = [];
    const clock = {
      now: () => 0,
      random: () => 0,
      sleep: (_ms: number, signal?: AbortSignal) =>
        new Promise<void>((resolve, reject) => {
          waits.push(resolve);
          signal?.addEventListener("abort", () => reject(signal.reason));
        }),
    };
    const log = { warn: () => undefined };
    const settings = { instance: "reports", keyring: during, log, fail: () => undefined, signal: ended.signal, clock };
    await openInstallationSecrets(pool, settings).confirmed;
    await database.adminPool.query("update secret_holders set seen_at = seen_at - interval '1 hour'");
    waits.at(-1)!();
    await vi.waitFor(async () => {
      const { holders } = await knownSecrets(pool);
      const lately = holders.filter((one) => !isSilent(one, Date.now())).map(({ instance }) => instance);
      expect(lately).toEqual(["reports"]);
    }, 20_000);
    await vi.waitFor(() => expect(waits).toHaveLength(2), 20_000);
    ended.abort();
  });
});
