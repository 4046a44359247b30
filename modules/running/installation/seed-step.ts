// Runs the seed as a step of start-up: keeps its secrets beside the stack's own, and writes the
// demonstration's data to run.json.

import { openHome, readJson, writeJson } from "../../../infra/embedded/home.ts";
import type { Step } from "../../../infra/embedded/supervisor.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import { keyringOf } from "../../../infra/runtime/keyring.ts";
import { tookTooLong } from "../../catalog/reference/open-change.ts";
import { type KnownSecrets, seed } from "./seed.ts";

/**
 * A machine that is busy starting up may not save a change in time. What was saved stays, and the
 * next try continues from there.
 */
const MOST_TRIES = 5;
const seeded = async (options: Parameters<typeof seed>[0]): ReturnType<typeof seed> => {
  for (let tries = 1; ; tries += 1)
    try {
      return await seed(options);
    } catch (error) {
      if (tries === MOST_TRIES || !tookTooLong(error)) throw error;
    }
};

export const seedStep: Step = {
  name: "demo clients",
  run: async ({ env, home, publish }) => {
    const file = openHome(home).path("demo-secrets.json");
    const keyring = keyringOf(env.TRIBUTARY_SECRET!);
    const pool = openPool(env.POSTGRES_URL!, { name: "tributary-seed", max: 2 });
    try {
      const { demo, secrets } = await seeded({
        pool,
        known: readJson<KnownSecrets>(file) ?? {},
        keyring,
        issuer: env.OIDC_ISSUER,
        trackingUrl: env.TRACKING_URL,
      });
      writeJson(file, secrets);
      publish({ ...demo });
    } finally {
      await pool.end();
    }
  },
};
