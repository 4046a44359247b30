// An installation that several test files share, one after the other. Each file has its own three
// shops of the demonstration, with names of its own, so it never sees the events of another file.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import type pg from "pg";
import { inject } from "vitest";
import { letterTopics } from "../../edges/dead-letters.ts";
import { demoToken } from "../../infra/embedded/servers/login.ts";
import type { Run, Stack } from "../../infra/embedded/supervisor.ts";
import { openPool, sql } from "../../infra/postgres/sql.ts";
import { type Keyring, keyringOf } from "../../infra/runtime/keyring.ts";
import { controlOf } from "../../infra/runtime/stack-control.ts";
import { newClientSecret, saveClientSecret } from "../../modules/access/secrets/client-secrets.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import type { ReferenceChanges } from "../../modules/catalog/reference/entities.ts";
import { tookTooLong } from "../../modules/catalog/reference/open-change.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { demoClients } from "../../modules/running/installation/demo-clients.ts";
import { type Demo, untilInForce } from "../../modules/running/installation/seed.ts";
import { stopLoads } from "./e2e-load.ts";
import { openProduct, type Product, type Stored, until } from "./e2e-product.ts";

const READY_MS = 90_000;

const runIn = (home: string): Run => JSON.parse(readFileSync(join(home, "run.json"), "utf8"));
type Shops = Pick<Demo, "clients" | "links">;

/** The shops of the demonstration; every name in them ends with the name of the file. */
const shopsNamed = (name: string) =>
  demoClients.map(({ slug, changes }) => ({
    slug: `${slug}-${name}`,
    changes: {
      ...changes,
      clients: changes.clients!.map((client) => ({ ...client, slug: `${slug}-${name}` })),
      partners: changes.partners!.map((partner, n) => ({
        ...partner,
        name: `Partner ${n + 1} ${name}`,
        email: `${slug}-${name}-${n}@partner.example`,
        referral_code: `${slug}-${name}-${n}`,
      })),
      links: changes.links!.map((link) => ({ ...link, code: `${link.code}-${name}` })),
    },
  }));

const MOST_TRIES = 5;
/** A busy machine may not save a change in time. */
const saved = async (pool: pg.Pool, changes: ReferenceChanges): ReturnType<typeof writeReference> => {
  for (let tries = 1; ; tries += 1)
    try {
      return await writeReference(pool, "test", changes);
    } catch (error) {
      if (tries === MOST_TRIES || !tookTooLong(error)) throw error;
    }
};

/** Saves the shops of a file, and resolves when they are in force. */
const saveShops = async (pool: pg.Pool, name: string, tracking: string, keyring: Keyring): Promise<Shops> => {
  const clients: Demo["clients"][number][] = [];
  for (const { slug, changes } of shopsNamed(name)) {
    const id = (await saved(pool, changes)).idOf("clients", -1);
    const { token } = await createToken(pool, { kind: "ingest", label: `test ${slug}`, client_id: id });
    const secret = newClientSecret();
    await saveClientSecret(pool, id, secret, keyring);
    clients.push({ id, slug, ingest_token: token, hmac_secret: secret });
  }
  await untilInForce(pool);
  const { rows } = await pool.query<Omit<Demo["links"][number], "url">>(sql`
    select code, link_id, client_id, partner_id from links
    where version = 1 and client_id = any (${clients.map(({ id }) => id)}) order by link_id`);
  return { clients, links: rows.map((link) => ({ ...link, url: `${tracking}/c/${link.code}` })) };
};

const shopsOf = (name: string, home: string, env: Stack["env"]): Promise<Shops> => {
  const pool = openPool(env.POSTGRES_ADMIN_URL!, { max: 2 });
  const keyring = keyringOf(env.TRIBUTARY_SECRET!);
  return saveShops(pool, name, runIn(home).apps.links!.url, keyring).finally(() => pool.end());
};

/** The stack as another process sees it: the content of `run.json`, and its control door. */
const stackOf = (home: string, env: Stack["env"], demo: Partial<Demo>): Stack => {
  const run = (): Run => {
    const written = runIn(home);
    return { ...written, demo: { ...written.demo, ...demo } };
  };
  const control = controlOf(run());
  const pid = (name: string): number | undefined => {
    const { apps, services } = run();
    return (apps[name] ?? services[name as keyof typeof services])?.pid ?? undefined;
  };
  return {
    get run() {
      return run();
    },
    ...{ env, home, pid },
    kill: (name, signal = "SIGKILL") => {
      const there = pid(name);
      return there !== undefined && process.kill(there, signal);
    },
    restart: control.restart,
    ready: (name, deadlineMs = READY_MS) =>
      until(`${name} is ready`, deadlineMs, async () => {
        const app = run().apps[name];
        if (app === undefined) {
          const { state } = (await control.status()).find((one) => one.name === name)!;
          if (state !== "running") throw new Error(state);
          return;
        }
        const answer = await fetch(`${app.ops_url}/readyz`);
        if (!answer.ok) throw new Error(await answer.text());
      }),
    start: ({ name }) => control.start(name),
    stop: async (name) => {
      if (name === undefined) throw new Error("other files run on this installation");
      await control.stop(name);
    },
  };
};

export interface JoinedProduct extends Product {
  /**
   * A token of a user of the demonstration for the platform API. The first one starts the API
   * again: beside Redis, the process counts what files before have asked in the name of that user.
   */
  readonly token: (email: string) => Promise<string>;
  /** Records of a topic of dead letters that have come since the file joined. */
  readonly letters: (topic: string) => Promise<readonly Stored[]>;
  /** Stops an app until the end of the file, which runs the app with failpoints itself. */
  readonly without: (name: string) => Promise<void>;
}

/** All files use the users of the demonstration, and each user may send 600 requests a minute. */
const forgetRequests = async (url: string): Promise<void> => {
  const redis = new Redis(url);
  const keys = await redis.keys("rate:api:*");
  if (keys.length > 0) await redis.del(...keys);
  redis.disconnect();
};

/**
 * Call it in beforeAll, and `clear` in afterAll; `clear` fails if the file leaves the installation
 * in a state that would fail the next file. `name` is the suffix of its shops' names. One file
 * passes none and uses the shops of `npm start`.
 */
export const joinProduct = async (name?: string): Promise<JoinedProduct> => {
  const { home, env, said } = inject("installation");
  await forgetRequests(env.REDIS_URL!);
  const stack = stackOf(home, env, name === undefined ? {} : await shopsOf(name, home, env));
  const own = (word: string): string => (name === undefined ? word : `${word}-${name}`);
  const stopped: string[] = [];
  let renewed: Promise<void> | undefined;
  const product = await openProduct(
    stack,
    () => readFileSync(said, "utf8").trimEnd().split("\n"),
    async () => {
      const down = (await controlOf(stack.run).status()).filter(({ state }) => state !== "running");
      if (down.length > 0) throw new Error(`left behind: ${JSON.stringify(down)}`);
    },
  );
  const former = new Map<string, ReadonlyMap<number, number>>();
  for (const topic of Object.values(letterTopics)) {
    const marks = await product.admin.watermarks(topic);
    former.set(topic, new Map(marks.map(({ partition, high }) => [partition, high])));
  }
  return {
    ...product,
    letters: async (topic) =>
      (await product.read(topic)).filter(({ partition, offset }) => offset >= former.get(topic)!.get(partition)!),
    without: async (app) => {
      stopped.push(app);
      await stack.stop(app);
    },
    token: async (email) => {
      renewed ??= stack.restart("api");
      await renewed;
      return demoToken(env.OIDC_ISSUER!, JSON.parse(readFileSync(join(home, "secrets.json"), "utf8")).login, email);
    },
    client: (slug) => product.client(own(slug)),
    link: (code) => product.link(own(code)),
    clear: async () => {
      try {
        await stopLoads();
        for (const app of stopped) await controlOf(stack.run).start(app);
        for (const one of Object.keys(stack.run.apps)) await stack.ready(one);
        await product.quiet(60_000);
      } finally {
        await product.clear();
      }
    },
  };
};
