// apps/ops/seed-step.ts - the seed as a step of start-up: its secrets are kept beside the stack's own, and what it made goes into run.json.
import { openPool } from "../../sinks/postgres/sql.ts";
import { openHome, readJson, writeJson } from "../stack/home.ts";
import type { Step } from "../stack/supervisor.ts";
import { type KnownSecrets, seed } from "./seed.ts";

export const seedStep: Step = {
  name: "demo clients",
  run: async ({ env, home, publish }) => {
    const file = openHome(home).path("demo-secrets.json");
    const pool = openPool(env.POSTGRES_URL!, { name: "tributary-seed", max: 2 });
    try {
      const { demo, secrets } = await seed({ pool, known: readJson<KnownSecrets>(file) ?? {} });
      writeJson(file, secrets);
      publish({ ...demo });
    } finally {
      await pool.end();
    }
  },
};
