// The only reader of the environment in the ingest app.
import { type Environment, readEnvironment, variablesOf } from "../../infra/runtime/environment.ts";

export type Config = Environment<(typeof variablesOf.ingest)[number]>;

/** Throws one Error naming every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("ingest", variablesOf.ingest, env);
