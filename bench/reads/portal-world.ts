// An installation with months of history and fifty people who may read it: made once, or reused
// from the folder of an earlier bench.
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { readJson, writeJson } from "../../infra/embedded/home.ts";
import { demoToken } from "../../infra/embedded/servers/login.ts";
import { openPool, sql } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { writeHistory } from "../load/history.ts";
import { openWorld, type World } from "../world.ts";

const USERS = 50;
const PARTNERS = 20;
/** The index of the partner and the campaign that the reads are about; each 20th sale is theirs. */
export const SELLS = 1;
type Role = "admin" | "client_manager" | "viewer" | "partner" | "client_user";
export interface User {
  readonly role: Role;
  readonly token: string;
}
/** The subjects of the history, stored beside it. */
export interface Kept {
  readonly clientId: number;
  readonly partners: readonly number[];
  readonly campaigns: readonly number[];
  readonly rule: number;
  readonly order: string;
  readonly event: string;
  readonly days: number;
  readonly eventsADay: number;
}
export interface PortalWorld {
  readonly world: World;
  readonly kept: Kept;
  readonly users: readonly User[];
}

/** The roles of fifty people: some work with all figures, others read their own. */
const roleOf = (n: number): Role =>
  (["client_manager", "client_manager", "admin", "viewer", "partner", "client_user"] as const)[n % 6]!;

/** A rule for purchases of one country: one of 250 events. */
export const rule = (partner_id: number) => ({
  when: {
    all: [
      { field: "t", op: "eq", value: "purchase" },
      { field: "country", op: "eq", value: "MX" },
    ],
  },
  // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
  then: { partner_id },
});

const makeReference = async (world: World) => {
  const pool = openPool(world.stack.env.POSTGRES_URL!, { max: 1 });
  const numbers = Array.from({ length: PARTNERS }, (_, n) => -1 - n);
  const client_id = world.clientId;
  const { idOf } = await writeReference(pool, "bench", {
    partners: numbers.map((partner_id) => ({
      ...{ partner_id, name: `Partner ${-partner_id}`, email: `bench${partner_id}@partner.example` },
      client_ids: [client_id],
    })),
    campaigns: numbers.map((campaign_id) => ({
      ...{ campaign_id, client_id, name: `Campaign ${-campaign_id}`, destination_url: "https://shop.example/" },
    })),
    rules: [{ rule_id: -1, client_id, name: "Purchases of Mexico", status: "inactive", ...rule(-1) }],
  }).finally(() => pool.end());
  return {
    partners: numbers.map((n) => idOf("partners", n)),
    campaigns: numbers.map((n) => idOf("campaigns", n)),
    rule: idOf("rules", -1),
  };
};

const usersOf = async ({ stack, loginSecret, clientId }: World, partner: number): Promise<readonly User[]> => {
  const owner = openPool(stack.env.POSTGRES_ADMIN_URL!, { max: 1 });
  const users: User[] = [];
  for (let n = 0; n < USERS; n += 1) {
    const [role, email] = [roleOf(n), `bench-${n}@people.example`];
    const ofClient = role === "client_manager" || role === "client_user";
    await owner.query(sql`
      insert into users (email, name, role, partner_id, client_ids, all_clients)
      select ${email}, ${email}, ${role}, ${role === "partner" ? partner : null}, ${ofClient ? [clientId] : []},
        ${role === "viewer"}
      where not exists (select from users where email = ${email})`);
    users.push({ role, token: await demoToken(stack.env.OIDC_ISSUER!, loginSecret, email) });
  }
  await owner.end();
  return users;
};

const makeHistory = async (world: World, days: number, eventsADay: number): Promise<Kept> => {
  const clickhouse = openClickhouse(world.stack.env.CLICKHOUSE_URL!, { timeoutMs: 900_000 });
  const owner = openPool(world.stack.env.POSTGRES_ADMIN_URL!, { max: 1, timeoutMs: 900_000 });
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const { clientId } = world;
  try {
    const made = await makeReference(world);
    const { order, event } = await writeHistory({ clickhouse, owner, clientId, ...made, days, eventsADay, say });
    return { clientId, ...made, order, event, days, eventsADay };
  } finally {
    await Promise.allSettled([clickhouse.close(), owner.end()]);
  }
};

/**
 * Opens the installation in `home`, or in a folder that is removed at the end. If an earlier run
 * left data there, it is used unchanged and the options are ignored.
 */
export const openPortalWorld = async (
  home: string | undefined,
  days: number,
  eventsADay: number,
): Promise<PortalWorld> => {
  const world = await openWorld(apps, { services: ["identity"], home });
  try {
    const file = `${world.home}/history.json`;
    const kept = readJson<Kept>(file) ?? (await makeHistory(world, days, eventsADay));
    writeJson(file, kept);
    return { world, kept, users: await usersOf(world, kept.partners[SELLS]!) };
  } catch (error) {
    await world.stop();
    throw error;
  }
};
